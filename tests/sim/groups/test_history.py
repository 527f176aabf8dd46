"""What the checker of queues concludes, and what it must not."""

import math

import pytest
import trio
from trio.testing import MockClock

from tests.sim.clients.history import ClientHistory, Place
from tests.sim.disk.history import Violation
from tests.sim.groups.history import GroupHistory
from tests.sim.groups.plan import GroupSetup
from tests.sim.groups.stories import Held

PLACE = Place("t0", 0, 5)


async def came_in_place_of_the_dead() -> GroupHistory:
    """A consumer that died held a message, and the next one of its member has just come."""
    setup = GroupSetup("g0", ("t0",), "earliest", is_shared=False, max_deliveries=3, has_poison=False, members=())
    history = GroupHistory(setup, ClientHistory({"t0": 1}))
    history.enter("m0", "first")
    await trio.sleep(1)
    held = Held(PLACE, "first", 1, "receipt", trio.current_time(), math.inf, math.inf, member="m0")
    history.stories[PLACE].deliveries.append(held)
    history.leave("m0", "first")
    await trio.sleep(1)
    history.enter("m0", "second")
    history.entered("m0", "second", trio.current_time(), is_sound=True)
    return history


async def test_who_comes_in_the_place_of_a_dead_one_gets_what_that_held_at_once(autojump_clock: MockClock) -> None:
    history = await came_in_place_of_the_dead()
    with pytest.raises(Violation, match="§5: second came in its place"):
        history.note_received("second", [], [("t0", 0)])


async def test_nothing_comes_at_once_when_the_broker_was_killed_meanwhile(autojump_clock: MockClock) -> None:
    """It may have handed the message out just before, and nobody heard: the next attempt is the last, and alone."""
    history = await came_in_place_of_the_dead()
    history.lose_members()
    history.note_received("second", [], [("t0", 0)])
