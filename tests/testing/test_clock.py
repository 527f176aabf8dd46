import trio
from trio.testing import MockClock

from goqueue.environment import WallClock
from goqueue.testing.clock import START, SimulatedClock


async def test_the_wall_clock_follows_virtual_time(autojump_clock: MockClock) -> None:
    clock: WallClock = SimulatedClock()
    assert clock.now() == START
    await trio.sleep(90.000_001)
    assert clock.now() == START + 90_000_001


async def test_the_wall_clock_may_be_ahead_and_jump_either_way(autojump_clock: MockClock) -> None:
    clock = SimulatedClock(start=1_000_000, skew=500)
    assert clock.now() == 1_000_500
    clock.step(-2_000)
    assert clock.now() == 998_500
    clock.step(5_000_000)
    await trio.sleep(1)
    assert clock.now() == 6_998_500
    clock.skew = 0
    assert clock.now() == 2_000_000


async def test_clocks_of_two_nodes_differ_by_their_skew(autojump_clock: MockClock) -> None:
    one, other = SimulatedClock(), SimulatedClock(skew=250_000)
    await trio.sleep(3)
    assert other.now() - one.now() == 250_000
