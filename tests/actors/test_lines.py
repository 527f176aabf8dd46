"""Of several who come, each looks when the one before has looked."""

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.lines import Lines, Turn

ANN, BOB = ("g", "ann"), ("g", "bob")


async def test_turns_come_in_the_order_of_the_calls_whatever_wakes_first(autojump_clock: MockClock) -> None:
    lines, order = Lines(), list[int]()

    async def look(number: int, turn: Turn) -> None:
        await turn.come()
        order.append(number)
        lines.leave(ANN, turn)

    turns = [lines.join(ANN) for _ in range(20)]
    async with trio.open_nursery() as nursery:
        for number, turn in enumerate(turns):
            nursery.start_soon(look, number, turn)
    assert order == list(range(20))


async def test_those_of_others_do_not_wait_and_nobody_waits_behind_one_that_has_left(
    autojump_clock: MockClock,
) -> None:
    lines = Lines()
    first, second, other = lines.join(ANN), lines.join(ANN), lines.join(BOB)
    await other.come()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(second.come)
        await wait_all_tasks_blocked()
        assert nursery.child_tasks, "the first has not looked yet"
        lines.leave(ANN, first)
        lines.leave(ANN, first)
    lines.leave(ANN, second)
    lines.leave(BOB, other)
    assert lines._last == {}, "nothing is kept of those who have gone"
    await lines.join(ANN).come()
