"""Requests that wait long: how many may ask at once, and how they are sent away."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.front.bounds import Bounds, Polls
from goqueue.net.wire.errors import GoingAway, TooManyRequests


async def test_who_begins_to_wait_when_the_broker_goes_is_sent_away_as_well(autojump_clock: MockClock) -> None:
    """G15: a request that was taken just before is served just after."""
    polls = Polls(Bounds())
    polls.send_away()
    with pytest.raises(GoingAway), polls.asking(1):
        await trio.sleep(30)
    assert trio.current_time() < 1


async def test_who_is_through_with_waiting_is_not_sent_away(autojump_clock: MockClock) -> None:
    polls = Polls(Bounds())
    with polls.asking(1):
        polls.send_away()


async def test_what_is_undisturbed_is_ended_and_nothing_is_begun_behind_it(autojump_clock: MockClock) -> None:
    polls, steps = Polls(Bounds()), []

    async def poll() -> None:
        with polls.asking(1) as scope:
            with polls.undisturbed(scope):
                await trio.sleep(1)
                steps.append("ended")
            await trio.lowlevel.checkpoint()
            steps.append("begun")

    async def poll_until_sent_away() -> None:
        with pytest.raises(GoingAway):
            await poll()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(poll_until_sent_away)
        await wait_all_tasks_blocked()
        polls.send_away()
    assert steps == ["ended"]


async def test_questions_are_counted_while_they_are_asked() -> None:
    polls = Polls(Bounds())
    with polls.asking(Bounds().questions_max):
        with pytest.raises(TooManyRequests), polls.asking(1):
            pass
        with pytest.raises(TooManyRequests), polls.asking(1):
            pass
    with polls.asking(Bounds().questions_max):
        pass
