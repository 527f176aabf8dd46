"""`python -m tests.hostile.siege PORT SEED SECONDS CROWD`: attack a broker on loopback from a process of its own.

Attackers of every sort, some at a time, one after the other; and a crowd: a third opens a connection and is silent,
a third greets and is idle, a third opens and closes again and again. Says when the crowd stands
and when it is over.
"""

import resource
import sys
from random import Random

import trio

from tests.hostile.attackers import ATTACKS, Attack, greet

ATTACKERS = 24
PATIENCE_SECONDS = 3.0
"""Of one attacker; then another one comes."""
LOST = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


async def besiege(port: int, seed: int, seconds: float, crowd: int) -> None:
    random, inside = Random(seed), set[int]()
    async with trio.open_nursery() as nursery:
        for number in range(crowd):
            nursery.start_soon(in_the_crowd, port, number, inside)
            if number % 50 == 0:
                await trio.sleep(0.01)  # a backlog is 128 places
        while len(inside) < crowd // 2:  # noqa: ASYNC110  (hundreds of them report it)
            await trio.sleep(0.01)
        print("crowded", flush=True)
        for _ in range(ATTACKERS):
            nursery.start_soon(attack_on, port, Random(random.getrandbits(64)))
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    print("over", flush=True)


async def in_the_crowd(port: int, number: int, inside: set[int]) -> None:
    manner = number % 3
    while True:
        try:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                if manner == 1:
                    await greet(stream)
                if manner != 2:
                    inside.add(number)
                    await stream.receive_some(1_000_000)
        except LOST:
            pass
        await trio.sleep(1)


async def attack_on(port: int, random: Random) -> None:
    while True:
        how: Attack = random.choice(ATTACKS)
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
    trio.run(besiege, int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
