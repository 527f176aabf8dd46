"""`python -m tests.hostile.siege PORT SEED SECONDS CROWD [http]`: attack a broker on loopback from another process.

Attackers of every sort, some at a time, one after the other; and a crowd: a third opens a connection and is silent,
a third greets and is idle, or waits in a long poll, a third opens and closes again and again. Says when the crowd
stands and when it is over. With `http` the port is that of HTTP.
"""

import resource
import sys
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import NamedTuple

import trio

from tests.hostile.attackers import ATTACKS, Attack, greet
from tests.hostile.httpattackers import HTTP_ATTACKS, wait_for_a_message

ATTACKERS = 24
PATIENCE_SECONDS = 3.0
"""Of one attacker; then another one comes."""
LOST = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class Army(NamedTuple):
    attacks: Sequence[Attack]
    settle: Callable[[trio.abc.HalfCloseableStream], Awaitable[None]]
    """What those of the crowd do who stay and are not silent."""


ARMIES = {"websocket": Army(ATTACKS, greet), "http": Army(HTTP_ATTACKS, wait_for_a_message)}


async def besiege(port: int, seed: int, seconds: float, crowd: int, army: Army) -> None:
    random, inside = Random(seed), set[int]()
    async with trio.open_nursery() as nursery:
        for number in range(crowd):
            nursery.start_soon(in_the_crowd, port, number, inside, army)
            if number % 50 == 0:
                await trio.sleep(0.01)  # a backlog is 128 places
        while len(inside) < crowd // 2:  # noqa: ASYNC110  (hundreds of them report it)
            await trio.sleep(0.01)
        print("crowded", flush=True)
        for _ in range(ATTACKERS):
            nursery.start_soon(attack_on, port, Random(random.getrandbits(64)), army)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    print("over", flush=True)


async def in_the_crowd(port: int, number: int, inside: set[int], army: Army) -> None:
    manner = number % 3
    while True:
        try:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                if manner == 1:
                    await army.settle(stream)
                if manner != 2:
                    inside.add(number)
                    await stream.receive_some(1_000_000)
        except LOST:
            pass
        await trio.sleep(1)


async def attack_on(port: int, random: Random, army: Army) -> None:
    while True:
        how = random.choice(army.attacks)
        with trio.move_on_after(PATIENCE_SECONDS):
            try:
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    await how(stream, random)
            except LOST:
                pass  # thrown out
        await trio.sleep(0.02)


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port, seed, seconds, crowd, *kind = sys.argv[1:]
    trio.run(besiege, int(port), int(seed), float(seconds), int(crowd), ARMIES[(kind or ["websocket"])[0]])
