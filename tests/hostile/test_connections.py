"""Attackers beside a client that means well, on a network in memory: it notices nothing, they are thrown out."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.network import SimulatedNetwork
from tests.hostile.attackers import ATTACKS, Attack
from tests.process.brokers import HOST, URL, WEBSOCKET, MemoryNetwork, broker_in_memory

SLOWEST_PUBLISH_SECONDS = 2.0
PUBLISHES, PAUSE = 40, 0.5
ALL_GONE_SECONDS = 90.0
"""After the last word: the patience of the broker, and the look that ends it."""


async def publish_on(client: goqueue.Client) -> float:
    """How long the slowest took."""
    slowest = 0.0
    for number in range(PUBLISHES):
        before = trio.current_time()
        await client.publish("orders", b"%d" % number)
        slowest = max(slowest, trio.current_time() - before)
        await trio.sleep(PAUSE)
    return slowest


async def attack(network: SimulatedNetwork, how: Attack, random: Random) -> None:
    stream = await network.connect(HOST, WEBSOCKET.port or 0)
    try:
        await how(stream, random)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # thrown out
    finally:
        await trio.aclose_forcefully(stream)


async def beside(attacks: list[Attack], seed: int) -> None:
    random, network = Random(seed), MemoryNetwork()
    async with (
        broker_in_memory(network, SimulatedDisk(Random(seed))),
        goqueue.connect(URL, network=network) as client,
    ):
        await client.create_topic("orders", partitions=2)
        async with trio.open_nursery() as nursery:
            for how in attacks:
                nursery.start_soon(attack, network, how, Random(random.getrandbits(64)))
            assert await publish_on(client) < SLOWEST_PUBLISH_SECONDS
            with trio.move_on_after(ALL_GONE_SECONDS):
                while len(network.live()) > 1:  # noqa: ASYNC110  (a network tells nobody)
                    await trio.sleep(1)
            nursery.cancel_scope.cancel()
        assert len(network.live()) == 1, "an attacker holds its connection"
        assert sum([partition.end for partition in (await client.topic("orders")).partitions]) == PUBLISHES


@pytest.mark.parametrize("how", ATTACKS, ids=lambda how: how.__name__)
async def test_one_attacker_is_thrown_out_and_nobody_notices_it(how: Attack, autojump_clock: MockClock) -> None:
    """G14"""
    await beside([how], seed=0)


async def test_many_attackers_at_once_are_not_noticed_either(
    request: pytest.FixtureRequest, autojump_clock: MockClock
) -> None:
    """G14"""
    for seed in range(max(1, int(request.config.getoption("--seeds")) // 50)):
        print("seed", seed)  # shown when the test fails
        await beside(Random(seed).choices(ATTACKS, k=12), seed)
