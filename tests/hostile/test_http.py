"""Attackers at the HTTP port, beside clients that mean well: these notice nothing, the broker stays as it was."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.network import SimulatedNetwork
from tests.hostile.attackers import Attack
from tests.hostile.httpattackers import HTTP_ATTACKS
from tests.hostile.test_connections import ALL_GONE_SECONDS, PAUSE, PUBLISHES, SLOWEST_PUBLISH_SECONDS
from tests.http.world import HttpClient
from tests.process.brokers import HOST, HTTP, URL, MemoryNetwork, broker_in_memory

PORT = HTTP.port or 0
GONE_SECONDS = 2 * ALL_GONE_SECONDS
"""A client that reads nothing has 30 s, and more for each 16 KiB of its answer."""


async def publish_on(client: goqueue.Client, http: HttpClient) -> float:
    """How long the slowest took, by turns over either port."""
    slowest = 0.0
    for number in range(PUBLISHES // 2):
        before = trio.current_time()
        await client.publish("orders", b"%d" % number)
        answer = await http.ask("POST", "/topics/orders/messages", {"messages": [{"value": f"{number}"}]})
        assert answer.status == 200, answer.body
        slowest = max(slowest, trio.current_time() - before)
        await trio.sleep(PAUSE)
    return slowest


async def attack(network: SimulatedNetwork, how: Attack, random: Random) -> None:
    stream = await network.connect(HOST, PORT)
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
        await client.create_topic("orders", partitions=1)
        http = HttpClient(await network.connect(HOST, PORT))
        async with trio.open_nursery() as nursery:
            for how in attacks:
                nursery.start_soon(attack, network, how, Random(random.getrandbits(64)))
            assert await publish_on(client, http) < SLOWEST_PUBLISH_SECONDS
            await http.stream.aclose()
            with trio.move_on_after(GONE_SECONDS):
                while len(network.live()) > 1:  # noqa: ASYNC110  (a network tells nobody)
                    await trio.sleep(1)
            nursery.cancel_scope.cancel()
        assert len(network.live()) == 1, "an attacker holds its connection"
        values = [message.value async for message in client.read("orders", end="latest")]
        expected = [b"%d" % (number // 2) for number in range(PUBLISHES)]
        assert values == expected, "attackers publish nothing"


@pytest.mark.parametrize("how", HTTP_ATTACKS, ids=lambda how: how.__name__)
async def test_one_attacker_at_the_http_port_is_thrown_out_and_nobody_notices_it(
    how: Attack, autojump_clock: MockClock
) -> None:
    """G14"""
    await beside([how], seed=0)


async def test_many_attackers_at_the_http_port_are_not_noticed_either(
    request: pytest.FixtureRequest, autojump_clock: MockClock
) -> None:
    """G14"""
    for seed in range(max(1, int(request.config.getoption("--seeds")) // 50)):
        print("seed", seed)  # shown when the test fails
        await beside(Random(seed).choices(HTTP_ATTACKS, k=12), seed)
