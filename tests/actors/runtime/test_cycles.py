"""A call cycle names itself; what only looks like one is let through."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.cycles import CallWait, Party, refuse_cycle
from goqueue.actors.runtime.messages import Letter, Reply
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import RemoveChildren, Supervisor
from goqueue.errors import CallCycle
from tests.actors.runtime.troupe import (
    Do,
    Keep,
    Puppet,
    add_child,
    calling,
    itself,
    nothing,
    puppet,
    rest,
    start_call,
)


async def test_an_actor_that_calls_itself_is_told(autojump_clock: MockClock) -> None:
    async with running(puppet("a")) as a:
        with pytest.raises(CallCycle, match="call cycle a → a: ") as cycle:
            await a.call(calling(a, Do(nothing)))
        assert cycle.value.details == {"cycle": ["a", "a"]}
        await a.call(Do(nothing))


async def test_a_cycle_of_two_is_told(autojump_clock: MockClock) -> None:
    async with running(puppet("a")) as a, running(puppet("b")) as b:
        with pytest.raises(CallCycle, match="call cycle b → a → b: "):
            await a.call(calling(b, calling(a, Do(nothing))))
        await a.call(calling(b, Do(nothing)))
        await b.call(calling(a, Do(nothing)))


async def test_a_cycle_of_three_is_told(autojump_clock: MockClock) -> None:
    async with running(puppet("a")) as a, running(puppet("b")) as b, running(puppet("c")) as c:
        with pytest.raises(CallCycle, match="call cycle c → a → b → c: "):
            await a.call(calling(b, calling(c, calling(a, Do(nothing)))))
        await a.call(calling(b, calling(c, Do(nothing))))


@given(length=st.integers(1, 6), entry=st.integers(0, 5))
@settings(deadline=None, max_examples=20)
async def test_a_cycle_of_any_length_is_told_and_everybody_lives(length: int, entry: int) -> None:
    specs = [puppet(f"actor-{number}") for number in range(length)]
    message: Do = Do(nothing)
    for step in range(length, -1, -1):
        message = calling(specs[(entry + step) % length].ref, message) if step else message
    async with AsyncExitStack() as stack:
        for spec in specs:
            await stack.enter_async_context(running(spec))
        with pytest.raises(CallCycle):
            await specs[entry % length].ref.call(message)
        for spec in specs:
            await spec.ref.call(Do(nothing))


async def test_two_that_call_each_other_for_different_callers_are_told(autojump_clock: MockClock) -> None:
    """Neither acts for the other, but each waits for the other: a chain of calls would not show it."""

    def first_rest_then_call(target: ActorRef) -> Do:
        async def action(_puppet: Puppet) -> None:
            await trio.sleep(1)
            await target.call(Do(nothing))

        return Do(action)

    async with running(puppet("a")) as a, running(puppet("b")) as b, trio.open_nursery() as nursery:
        callers = [start_call(nursery, a, first_rest_then_call(b)), start_call(nursery, b, first_rest_then_call(a))]
    assert sorted(type(caller.error).__name__ for caller in callers) == ["CallCycle", "NoneType"]


async def test_a_call_from_a_nursery_of_the_handler_is_the_actors_call(autojump_clock: MockClock) -> None:
    async with running(puppet("a")) as a:

        async def call_in_nursery(_puppet: Puppet) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(a.call, Do(nothing))

        with pytest.raises(CallCycle):
            await a.call(Do(call_in_nursery))


async def test_many_callers_and_diamonds_are_no_cycle(autojump_clock: MockClock) -> None:
    async with AsyncExitStack() as stack:
        top, left, right, bottom = [
            await stack.enter_async_context(running(puppet(name))) for name in ("top", "left", "right", "bottom")
        ]

        async def both(_puppet: Puppet) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(left.call, calling(bottom, Do(rest)))
                nursery.start_soon(right.call, calling(bottom, Do(rest)))

        async with trio.open_nursery() as nursery:
            callers = [start_call(nursery, top, Do(both)) for _ in range(3)]
    assert all(caller.error is None for caller in callers)


# Background tasks are nobody's party.


def in_background(task: Callable[[Puppet], Awaitable[Any]]) -> Do:
    async def action(actor: Puppet) -> None:
        actor.background(task, actor)

    return Do(action)


async def test_a_background_task_may_call_its_own_actor(autojump_clock: MockClock) -> None:
    async with running(puppet("a")) as a:

        async def call_home(actor: Puppet) -> None:
            await a.call(Do(nothing))
            actor.journal.append("home")

        await a.call(in_background(call_home))
        await wait_all_tasks_blocked()
        assert "home" in (await a.call(Do(itself))).journal


async def test_a_background_task_may_call_one_that_waits_for_its_actor(autojump_clock: MockClock) -> None:
    async with running(puppet("a")) as a, running(puppet("b")) as b, trio.open_nursery() as nursery:
        start_call(nursery, a, Do(rest))
        await wait_all_tasks_blocked()
        start_call(nursery, b, calling(a, Do(nothing)))  # b waits for a, which is busy for a second
        await wait_all_tasks_blocked()

        async def ask(_puppet: Puppet) -> None:
            await b.call(Do(nothing))

        await a.call(in_background(ask))


# Deferred replies.


async def test_a_cycle_through_a_deferred_reply_is_told_when_nobody_else_could_settle_it(
    autojump_clock: MockClock,
) -> None:
    async with running(puppet("a")) as a, running(puppet("b")) as b, trio.open_nursery() as nursery:
        actor: Puppet = await a.call(Do(itself))
        held = start_call(nursery, b, calling(a, Keep()))
        await wait_all_tasks_blocked()
        with pytest.raises(CallCycle, match="a → b → a"):
            await a.call(calling(b, Do(nothing)))
        actor.kept[0].resolve("settled")
        await wait_all_tasks_blocked()
        assert held.answer == "settled"


async def test_no_alarm_over_a_deferred_reply_that_a_background_task_will_settle(
    autojump_clock: MockClock,
) -> None:
    async def settle_later(actor: Puppet) -> None:
        await trio.sleep(1)
        actor.kept[0].resolve("on disk")

    async with running(puppet("a")) as a, running(puppet("b")) as b, trio.open_nursery() as nursery:
        held = start_call(nursery, b, calling(a, Keep()))
        await wait_all_tasks_blocked()
        await a.call(in_background(settle_later))
        assert await a.call(calling(b, Do(nothing))) is None
        assert held.answer == "on disk"
        assert trio.current_time() == 1


async def test_no_alarm_over_a_question_of_the_same_batch_that_a_background_task_will_settle(
    autojump_clock: MockClock,
) -> None:
    async def settle_later(actor: Puppet) -> None:
        await trio.sleep(1)
        actor.kept[0].resolve("on disk")

    async with running(puppet("a")) as a, running(puppet("b")) as b, trio.open_nursery() as nursery:
        start_call(nursery, a, Do(rest))
        await wait_all_tasks_blocked()
        held = start_call(nursery, b, calling(a, Keep()))
        await wait_all_tasks_blocked()
        a.cast(in_background(settle_later))
        asker = start_call(nursery, a, calling(b, Do(nothing)))
    assert a.counts.turns <= 4  # the three letters made one batch
    assert (held.answer, asker.error) == ("on disk", None)


async def test_what_an_actor_that_takes_its_batch_as_one_has_not_settled_is_deferred(
    autojump_clock: MockClock,
) -> None:
    class Whole(Puppet):
        async def handle_batch(self, batch: Sequence[Letter]) -> None:
            for letter in batch:
                if isinstance(letter.message, Keep):
                    self.background(self._settle_later, letter.reply)
                else:
                    await self.handle(letter)

        async def _settle_later(self, reply: Reply[Any]) -> None:
            await trio.sleep(1)
            reply.resolve("on disk")

    async with running(ChildSpec("a", Whole)) as a, running(puppet("b")) as b, trio.open_nursery() as nursery:
        held = start_call(nursery, b, calling(a, Keep()))
        await wait_all_tasks_blocked()
        await a.call(calling(b, Do(nothing)))
        assert held.answer == "on disk"


async def test_no_alarm_over_a_deferred_reply_that_another_task_of_the_handler_will_settle(
    autojump_clock: MockClock,
) -> None:
    async with running(puppet("a")) as a, running(puppet("b")) as b, trio.open_nursery() as nursery:
        held = start_call(nursery, b, calling(a, Keep()))
        await wait_all_tasks_blocked()

        async def ask_and_settle(actor: Puppet) -> None:
            async with trio.open_nursery() as inner:
                inner.start_soon(b.call, Do(nothing))
                await wait_all_tasks_blocked()
                actor.kept[0].resolve("settled")

        await a.call(Do(ask_and_settle))
        assert held.answer == "settled"


async def test_a_question_that_still_lies_in_the_mailbox_makes_a_cycle_whatever_runs_in_the_background(
    autojump_clock: MockClock,
) -> None:
    async with running(puppet("a")) as a, running(puppet("b")) as b, trio.open_nursery() as nursery:

        async def begin(actor: Puppet) -> None:
            actor.background(trio.sleep, 2)
            await trio.sleep(1)
            await b.call(Do(nothing))

        asker = start_call(nursery, a, Do(begin))
        await wait_all_tasks_blocked()
        queued = start_call(nursery, b, calling(a, Do(nothing)))
        await trio.sleep(1.5)
        assert isinstance(asker.error, CallCycle)
        assert queued.error is None


# Supervisors wait, too.


class Starter(Puppet):
    """Makes a call as part of its start."""

    def __init__(self, target: ActorRef) -> None:
        super().__init__()
        self.target = target

    async def start(self) -> None:
        await self.target.call(Do(nothing))


async def test_a_child_that_calls_its_supervisor_while_it_starts_is_told(autojump_clock: MockClock) -> None:
    async with running(supervised("top", Supervisor)) as top:
        with pytest.raises(CallCycle, match="child → top → child"):
            await add_child(top, ChildSpec("child", lambda: Starter(top)))


async def test_a_child_that_calls_a_later_sibling_while_it_starts_is_told(autojump_clock: MockClock) -> None:
    later = puppet("later")
    early = ChildSpec("early", lambda: Starter(later.ref))
    with pytest.raises(CallCycle, match="early → later → top → early"):
        async with running(supervised("top", lambda: Supervisor([early, later]))):
            pytest.fail("it never started")


async def test_a_child_may_call_an_earlier_sibling_while_it_starts(autojump_clock: MockClock) -> None:
    early = puppet("early")
    later = ChildSpec("later", lambda: Starter(early.ref))
    async with running(supervised("top", lambda: Supervisor([early, later]))):
        assert early.ref.counts.handled == 1


async def test_a_child_that_asks_for_its_own_removal_is_told(autojump_clock: MockClock) -> None:
    """Also through another: the supervisor would wait for the child, which waits for the supervisor."""
    child, other = puppet("child"), puppet("other")
    async with running(supervised("top", lambda: Supervisor([child, other]))) as top:
        with pytest.raises(CallCycle, match="child → child"):
            await child.ref.call(calling(top, RemoveChildren(("child",))))
        with pytest.raises(CallCycle, match="other → child → other"):
            await child.ref.call(calling(other.ref, calling(top, RemoveChildren(("child",)))))
        await child.ref.call(calling(top, RemoveChildren(("other",))))
        assert trio.current_time() == 0


# The graph alone, against the plain definition of a way back.


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=15), st.integers(0, 5), st.integers(0, 5))
def test_a_wait_is_refused_exactly_when_there_is_a_way_back(
    edges: list[tuple[int, int]], asker: int, target: int
) -> None:
    parties = [Party(str(number)) for number in range(6)]
    for waiter, waited_for in edges:
        parties[waiter].waits.append(CallWait(parties[waited_for]))
    reachable = {target}
    for _ in range(6):
        reachable |= {waited_for for waiter, waited_for in edges if waiter in reachable}
    try:
        refuse_cycle(parties[asker], CallWait(parties[target]))
    except CallCycle as error:
        cycle = [int(name) for name in error.details["cycle"]]
        assert (cycle[0], cycle[1], cycle[-1]) == (asker, target, asker)
        assert all(edge in edges for edge in pairwise(cycle[1:]))
    else:
        assert asker not in reachable
