"""Calls, casts and what happens when there is no room."""

from dataclasses import dataclass
from typing import assert_type

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.handlers import answers
from goqueue.actors.runtime.messages import Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.errors import ActorDied, Closed, GoQueueError, MailboxFull
from tests.actors.runtime.troupe import (
    Do,
    Keep,
    Puppet,
    calling,
    crashing,
    hang,
    itself,
    nothing,
    puppet,
    rest,
    start_call,
    unsettled,
)


@dataclass(frozen=True, slots=True)
class Add(Request[int]):
    amount: int


@dataclass(frozen=True, slots=True)
class Describe(Request[str]):
    pass


class Sum(Actor):
    def __init__(self) -> None:
        self.total = 0

    @answers(Add)
    async def add(self, message: Add) -> int:
        if message.amount < 0:
            raise Closed("only upwards")
        self.total += message.amount
        return self.total

    @answers(Describe)
    async def describe(self, _message: Describe) -> str:
        return f"the sum is {self.total}"


async def test_a_call_is_answered_with_the_type_that_its_message_promises() -> None:
    async with running(ChildSpec("sum", Sum)) as ref:
        assert_type(await ref.call(Add(4)), int)
        assert_type(await ref.call(Describe()), str)
        assert await ref.call(Add(3)) == 7
        assert await ref.call(Describe()) == "the sum is 7"


async def test_a_refusal_goes_to_its_caller_alone_and_the_actor_lives() -> None:
    async with running(ChildSpec("sum", Sum)) as ref:
        async with trio.open_nursery() as nursery:
            callers = [start_call(nursery, ref, Add(amount)) for amount in (1, -1, 1)]
        assert sorted(caller.answer for caller in callers if caller.error is None) == [1, 2]
        assert [type(caller.error) for caller in callers] == [type(None), Closed, type(None)]
        assert await ref.call(Add(0)) == 2


async def test_a_refusal_from_a_nursery_of_the_handler_is_a_refusal_too() -> None:
    async def refuse() -> None:
        raise Closed("no")

    async def refuse_in_nursery(_puppet: Puppet) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refuse)

    async with running(puppet("p")) as ref:
        with pytest.raises(Closed):
            await ref.call(Do(refuse_in_nursery))
        await ref.call(Do(nothing))


async def test_a_message_that_no_method_handles_is_a_bug() -> None:
    async with (
        trio.open_nursery() as nursery,
        crashing(TypeError, ChildSpec("sum", Sum), match="Sum has no method for Keep") as doomed,
    ):
        caller = start_call(nursery, doomed.ref, Keep())
    assert isinstance(caller.error, ActorDied)


def test_two_methods_for_one_message_are_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="handles Add twice: in add and plus"):

        class Confused(Sum):
            @answers(Add)
            async def plus(self, message: Add) -> int:
                return message.amount


async def test_a_subclass_may_override_a_handling_method() -> None:
    class Doubler(Sum):
        async def add(self, message: Add) -> int:
            return 2 * message.amount

    async with running(ChildSpec("doubler", Doubler)) as ref:
        assert await ref.call(Add(4)) == 8


async def test_a_call_to_an_actor_that_was_never_started_is_refused_at_once() -> None:
    with pytest.raises(ActorDied, match="p is down"):
        await puppet("p").ref.call(Do(nothing))


async def test_an_actor_can_hand_out_its_own_ref() -> None:
    async def own_ref(actor: Puppet) -> ActorRef:
        return actor.ref

    async with running(puppet("p")) as ref, running(puppet("q")) as other:
        assert await ref.call(Do(own_ref)) == ref
        assert {await ref.call(Do(own_ref)), ref, other} == {ref, other}


def test_a_mailbox_without_room_for_one_letter_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        puppet("p", mailbox_size_max=0)


# Back-pressure.


async def test_a_call_waits_for_room_in_the_mailbox(autojump_clock: MockClock) -> None:
    async with running(puppet("p", mailbox_size_max=2)) as ref, trio.open_nursery() as nursery:
        busy = start_call(nursery, ref, Do(rest))
        await wait_all_tasks_blocked()
        callers = [start_call(nursery, ref, Do(nothing)) for _ in range(5)]
        await wait_all_tasks_blocked()
        assert ref.counts.depth == 5  # two have room, three wait for it
        with pytest.raises(MailboxFull):
            ref.cast(Do(nothing))
    assert all(caller.done and caller.error is None for caller in [busy, *callers])
    assert ref.counts.depth == 0
    assert ref.counts.depth_highest == 5


async def test_a_caller_cancelled_while_it_waits_for_room_was_never_there(autojump_clock: MockClock) -> None:
    journal: list[str] = []

    async def note(_puppet: Puppet) -> None:
        journal.append("handled")

    async with running(puppet("p", mailbox_size_max=1)) as ref, trio.open_nursery() as nursery:
        start_call(nursery, ref, Do(rest))
        await wait_all_tasks_blocked()
        start_call(nursery, ref, Do(nothing))
        await wait_all_tasks_blocked()
        with trio.move_on_after(0.1) as patience:
            await ref.call(Do(note))
        assert patience.cancelled_caught
        assert ref.counts.depth == 1
    assert journal == []


async def test_a_question_at_once_is_answered_later_and_refused_without_room(autojump_clock: MockClock) -> None:
    async with running(puppet("p", mailbox_size_max=1)) as ref, trio.open_nursery() as nursery:
        start_call(nursery, ref, Do(rest))
        await wait_all_tasks_blocked()
        reply = ref.ask_at_once(Do(nothing))
        assert reply is not None
        assert ref.ask_at_once(Do(nothing)) is None, "the mailbox has room for one"
        await reply.wait()
        assert ref.ask_at_once(Do(nothing)) is not None, "and has it again"
    with pytest.raises(ActorDied):
        ref.ask_at_once(Do(nothing))


async def test_a_cast_never_waits_and_fails_when_there_is_no_room(autojump_clock: MockClock) -> None:
    async with running(puppet("p", mailbox_size_max=2)) as ref, trio.open_nursery() as nursery:
        start_call(nursery, ref, Do(rest))
        await wait_all_tasks_blocked()
        ref.cast(Do(nothing))
        ref.cast(Do(nothing))
        with pytest.raises(MailboxFull, match="holds 2 letters"):
            ref.cast(Do(nothing))
    assert ref.counts.handled == 3


async def test_a_refused_cast_changes_nothing_though_nobody_hears_the_refusal() -> None:
    async with running(ChildSpec("sum", Sum)) as ref:
        ref.cast(Add(-1))
        assert await ref.call(Add(1)) == 1


async def test_a_cast_to_an_actor_that_is_gone_is_refused() -> None:
    async with running(puppet("p")) as ref:
        pass
    with pytest.raises(ActorDied):
        ref.cast(Do(nothing))


async def test_actors_that_flood_each_other_with_casts_do_not_stand_still(autojump_clock: MockClock) -> None:
    """With casts that wait for room, both would wait for the other, without any call cycle."""
    left, right = puppet("left", mailbox_size_max=1), puppet("right", mailbox_size_max=1)
    full = 0

    def flood(there: ChildSpec, back: ChildSpec, rounds: int) -> Do:
        async def action(_puppet: Puppet) -> None:
            nonlocal full
            for _ in range(5):
                try:
                    there.ref.cast(flood(back, there, rounds - 1) if rounds else Do(nothing))
                except MailboxFull:
                    full += 1

        return Do(action)

    with trio.fail_after(1):
        async with running(left), running(right):
            await left.ref.call(flood(right, left, 5))
            await right.ref.call(flood(left, right, 5))
    assert full > 0


# The caller that leaves.


async def test_a_cancelled_caller_leaves_nothing_broken_and_its_reply_is_dropped() -> None:
    async with running(puppet("p")) as ref:
        actor: Puppet = await ref.call(Do(itself))
        async with trio.open_nursery() as nursery:
            caller = start_call(nursery, ref, Keep())
            await wait_all_tasks_blocked()
            [reply] = actor.kept
            wanted = [reply.wanted]
            caller.scope.cancel()
        wanted.append(reply.wanted)
        assert wanted == [True, False]
        assert not caller.done
        assert reply.resolve("too late") is False
        assert unsettled(ref) == 0
        await ref.call(Do(nothing))


async def test_a_caller_that_is_already_cancelled_sends_nothing() -> None:
    async with running(puppet("p")) as ref:
        with trio.CancelScope() as scope:
            scope.cancel()
            await ref.call(Do(nothing))
        await wait_all_tasks_blocked()
        assert ref.counts.handled == 0


async def test_an_answer_given_in_the_moment_of_the_cancellation_arrives_or_is_known_to_be_lost() -> None:
    async with running(puppet("p")) as ref:
        actor: Puppet = await ref.call(Do(itself))
        for settle_first in (True, False):
            async with trio.open_nursery() as nursery:
                caller = start_call(nursery, ref, Keep())
                await wait_all_tasks_blocked()
                reply = actor.kept.pop()
                if settle_first:
                    assert reply.resolve(1) is True
                caller.scope.cancel()
                if not settle_first:
                    assert reply.resolve(1) is False
            assert caller.done is settle_first


# Deferred replies.


async def test_a_deferred_reply_is_settled_later_by_value_or_error() -> None:
    async with running(puppet("p")) as ref:
        actor: Puppet = await ref.call(Do(itself))
        async with trio.open_nursery() as nursery:
            good, bad = start_call(nursery, ref, Keep()), start_call(nursery, ref, Keep())
            await wait_all_tasks_blocked()
            await ref.call(Do(nothing))  # the actor goes on meanwhile
            assert unsettled(ref) == 2
            kept = dict(zip(("first", "second"), actor.kept, strict=True))
            assert kept["first"].resolve("yes") is True
            kept["second"].fail(Closed("no"))
        assert {good.answer, bad.answer} == {"yes", None}
        assert {type(good.error), type(bad.error)} == {type(None), Closed}


async def test_a_reply_is_settled_once() -> None:
    async def settle_twice(actor: Puppet) -> None:
        actor.kept[0].resolve(1)
        actor.kept[0].resolve(2)

    async with trio.open_nursery() as nursery, crashing(RuntimeError, puppet("p"), match="settled once") as doomed:
        keeper = start_call(nursery, doomed.ref, Keep())
        await wait_all_tasks_blocked()
        asker = start_call(nursery, doomed.ref, Do(settle_twice))
    assert keeper.answer == 1
    assert isinstance(asker.error, ActorDied)


async def test_the_error_of_a_refusal_keeps_its_details() -> None:
    async def refuse(_puppet: Puppet) -> None:
        raise GoQueueError("no", offset=4711)

    async with running(puppet("p")) as ref:
        with pytest.raises(GoQueueError) as refusal:
            await ref.call(Do(refuse))
    assert refusal.value.details == {"offset": 4711}


async def test_time_limits_are_the_callers(autojump_clock: MockClock) -> None:
    """Also through another actor: its caller's limit frees the caller, not the actor."""
    spec = puppet("slow")
    async with running(spec) as slow, running(puppet("upper")) as upper:
        with trio.move_on_after(2) as patience:
            await upper.call(calling(slow, Do(rest)))
            await upper.call(calling(slow, Do(hang)))
        assert patience.cancelled_caught
        assert trio.current_time() == 2
