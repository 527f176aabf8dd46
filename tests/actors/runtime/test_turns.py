"""What an actor does in a turn: the batch, news, the deadline, and the one write at its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.handlers import answers, defers, hears
from goqueue.actors.runtime.messages import Letter, Reply, Request
from goqueue.actors.runtime.root import running
from goqueue.errors import ActorDied, Closed
from tests.actors.runtime.troupe import (
    Bug,
    Caller,
    Do,
    Fact,
    Keep,
    OtherFact,
    Puppet,
    background_tasks,
    crashing,
    itself,
    nothing,
    puppet,
    rest,
    start_call,
    unsettled,
)

# Batches.


@given(waiting=st.integers(0, 40), batch_max=st.integers(1, 12), mailbox_size_max=st.integers(1, 12))
@settings(deadline=None, max_examples=40)
async def test_a_turn_takes_all_that_waits_up_to_batch_max(
    waiting: int, batch_max: int, mailbox_size_max: int
) -> None:
    class Few(Puppet):
        pass

    Few.batch_max = batch_max
    gate = trio.Event()

    async def hold(_puppet: Puppet) -> None:
        await gate.wait()

    async with running(ChildSpec("few", Few, mailbox_size_max=mailbox_size_max)) as ref:
        actor: Few = await ref.call(Do(itself))
        async with trio.open_nursery() as nursery:
            start_call(nursery, ref, Do(hold))
            await wait_all_tasks_blocked()
            actor.batches.clear()
            for _ in range(waiting):
                start_call(nursery, ref, Do(nothing))
            await wait_all_tasks_blocked()
            gate.set()
    whole, left = divmod(waiting, batch_max)
    assert actor.batches == [batch_max] * whole + [left] * (left > 0)


async def test_letters_are_handled_in_the_order_in_which_they_came() -> None:
    seen: list[int] = []

    def note(number: int) -> Do:
        async def action(_puppet: Puppet) -> None:
            seen.append(number)

        return Do(action)

    async with running(puppet("p")) as ref:
        for number in range(700):
            ref.cast(note(number))
    assert seen == list(range(700))


async def test_a_busy_actor_lets_others_run_between_its_turns() -> None:
    async def again(actor: Puppet) -> None:
        if not stopped.is_set():
            ref.cast(Do(again))

    stopped = trio.Event()
    async with running(puppet("p")) as ref:
        ref.cast(Do(again))
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        stopped.set()


# The end of a turn: persist before you speak.


@dataclass(frozen=True, slots=True)
class Append(Request[int]):
    value: str


@dataclass(frozen=True, slots=True)
class Length(Request[int]):
    pass


class Journal(Actor):
    """A log whose appends are answered after one write for all of a turn."""

    def __init__(self, disk: list[list[str]]) -> None:
        self.disk = disk
        self.staged: list[str] = []
        self.broken = False

    @answers(Append)
    async def append(self, message: Append) -> int:
        if not message.value:
            raise Closed("empty")
        self.staged.append(message.value)
        return sum(map(len, self.disk)) + len(self.staged) - 1

    @answers(Length)
    async def length(self, _message: Length) -> int:
        return sum(map(len, self.disk))

    async def end_turn(self) -> None:
        await trio.sleep(0.01)
        if "broken" in self.staged:
            raise Bug("the disk is broken")
        if self.staged:
            self.disk.append(self.staged)
            self.staged = []


async def test_many_appends_of_a_turn_are_one_write(autojump_clock: MockClock) -> None:
    disk: list[list[str]] = []
    async with running(ChildSpec("journal", lambda: Journal(disk))) as ref, trio.open_nursery() as nursery:
        first = start_call(nursery, ref, Append("first"))
        await wait_all_tasks_blocked()
        callers = [start_call(nursery, ref, Append(str(number))) for number in range(100)]
    assert first.answer == 0
    assert sorted(caller.answer for caller in callers) == list(range(1, 101))
    assert [len(write) for write in disk] == [1, 100]


async def test_an_answer_leaves_after_the_write_and_a_refusal_does_not_overtake_it(
    autojump_clock: MockClock,
) -> None:
    disk: list[list[str]] = []
    async with running(ChildSpec("journal", lambda: Journal(disk))) as ref, trio.open_nursery() as nursery:
        good, refused = start_call(nursery, ref, Append("a")), start_call(nursery, ref, Append(""))
        await wait_all_tasks_blocked()
        assert not good.done
        assert not refused.done
        await trio.sleep(0.02)
        assert (good.answer, type(refused.error)) == (0, Closed)
        assert disk == [["a"]]


async def test_a_write_that_fails_lets_no_answer_of_its_turn_out(autojump_clock: MockClock) -> None:
    spec = ChildSpec("journal", lambda: Journal([]))
    async with trio.open_nursery() as nursery, crashing(Bug, spec, match="disk is broken"):
        callers = [start_call(nursery, spec.ref, Append(value)) for value in ("good", "broken", "")]
    assert [type(caller.error) for caller in callers] == [ActorDied] * 3


class Whole(Actor):
    """Takes a batch as one, without a look at single letters."""

    async def handle_batch(self, batch: Sequence[Letter]) -> None:
        for position, letter in enumerate(batch):
            letter.reply.resolve((position, len(batch)))


async def test_an_actor_may_take_the_batch_as_one() -> None:
    async with running(ChildSpec("whole", Whole)) as ref:
        async with trio.open_nursery() as nursery:
            callers = [start_call(nursery, ref, Length()) for _ in range(3)]
        assert sorted(caller.answer for caller in callers) == [(0, 3), (1, 3), (2, 3)]


# News.


async def test_news_wakes_a_sleeping_actor() -> None:
    async with running(puppet("p")) as ref:
        actor: Puppet = await ref.call(Do(itself))
        await wait_all_tasks_blocked()
        ref.news("s", Fact(1))
        await wait_all_tasks_blocked()
        assert actor.facts == [("s", Fact(1))]


async def test_newer_news_replaces_older_of_the_same_sender_and_kind(autojump_clock: MockClock) -> None:
    async with running(puppet("p")) as ref, trio.open_nursery() as nursery:
        actor: Puppet = await ref.call(Do(itself))
        start_call(nursery, ref, Do(rest))
        await wait_all_tasks_blocked()
        for value in range(100):
            ref.news("one", Fact(value))
            ref.news("two", Fact(-value))
            ref.news("one", OtherFact(value))
        await trio.sleep(2)
    assert actor.facts == [("one", Fact(99)), ("two", Fact(-99)), ("one", OtherFact(99))]


async def test_news_needs_no_room_and_takes_none(autojump_clock: MockClock) -> None:
    async with running(puppet("p", mailbox_size_max=1)) as ref, trio.open_nursery() as nursery:
        actor: Puppet = await ref.call(Do(itself))
        start_call(nursery, ref, Do(rest))
        await wait_all_tasks_blocked()
        ref.news("s", Fact(1))
        ref.cast(Do(nothing))
        ref.news("s", Fact(2))
    assert actor.facts == [("s", Fact(2))]


async def test_news_does_not_fail_when_a_sleeping_actor_has_just_been_sent_all_it_has_room_for() -> None:
    async with running(puppet("p", mailbox_size_max=1)) as ref:
        actor: Puppet = await ref.call(Do(itself))
        await wait_all_tasks_blocked()
        ref.cast(Do(nothing))  # fills the mailbox, and wakes the sleeping task
        ref.news("s", Fact(1))
    assert actor.facts == [("s", Fact(1))]


async def test_news_does_not_fail_in_whatever_order_it_meets_calls_that_fill_the_mailbox() -> None:
    async def tell(value: int) -> None:
        ref.news("s", Fact(value))

    async with running(puppet("p", mailbox_size_max=1)) as ref:
        actor: Puppet = await ref.call(Do(itself))
        for value in range(40):
            await wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tell, value)
                start_call(nursery, ref, Do(nothing))
                start_call(nursery, ref, Do(nothing))
    assert actor.facts == [("s", Fact(value)) for value in range(40)]


async def test_news_is_heard_once_and_never_lost_however_it_meets_calls_and_deadlines(
    autojump_clock: MockClock,
) -> None:
    class Ticking(Puppet):
        def next_deadline(self) -> float:
            return float(int(trio.current_time()) + 1)

    async with running(ChildSpec("ticking", Ticking, mailbox_size_max=1)) as ref:
        actor: Puppet = await ref.call(Do(itself))
        async with trio.open_nursery() as nursery:
            for value in range(50):
                await trio.sleep(0.25)
                callers = [start_call(nursery, ref, Do(nothing)) for _ in range(value % 4)]
                ref.news("s", Fact(value))
                await trio.sleep(0.01)
                assert actor.facts[-1] == ("s", Fact(value))
                assert all(caller.done for caller in callers)
    assert len(actor.facts) == 50


async def test_a_caller_that_got_room_late_does_not_put_the_actor_to_sleep_over_news() -> None:
    """The sender that waited for room runs on after the actor took its letter and went to sleep again."""
    async with running(puppet("p", mailbox_size_max=1)) as ref:
        actor: Puppet = await ref.call(Do(itself))
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                start_call(nursery, ref, Keep())
            await wait_all_tasks_blocked()
            ref.news("s", Fact(1))
            await wait_all_tasks_blocked()
            assert actor.facts == [("s", Fact(1))]
            for reply in actor.kept:
                reply.resolve(None)


async def test_news_to_an_actor_that_is_not_there_is_dropped_without_an_error() -> None:
    spec = puppet("p")
    spec.ref.news("s", Fact(1))
    async with running(spec) as ref:
        actor: Puppet = await ref.call(Do(itself))
    spec.ref.news("s", Fact(2))
    assert actor.facts == []


async def test_an_error_in_a_news_handler_crashes_the_actor_since_nobody_asked() -> None:
    class Deaf(Actor):
        @hears(Fact)
        async def fact(self, sender: str, news: Fact) -> None:
            raise Closed(f"{sender} said {news.value}")

    async with crashing(Closed, ChildSpec("deaf", Deaf), match="s said 1") as doomed:
        doomed.ref.news("s", Fact(1))


# Deadlines.


class Alarm(Puppet):
    def __init__(self, deadlines: list[float]) -> None:
        super().__init__()
        self.deadlines = deadlines
        self.ticks: list[float] = []

    def next_deadline(self) -> float | None:
        return self.deadlines[0] if self.deadlines else None

    async def tick(self, now: float) -> None:
        self.ticks.append(now)
        while self.deadlines and self.deadlines[0] <= now:
            self.deadlines.pop(0)


async def test_an_actor_ticks_exactly_at_its_deadlines(autojump_clock: MockClock) -> None:
    async with running(ChildSpec("alarm", lambda: Alarm([1.0, 1.5, 1.5, 60.0]))) as ref:
        alarm: Alarm = await ref.call(Do(itself))
        await trio.sleep(100)
    assert alarm.ticks == [1.0, 1.5, 60.0]


async def test_messages_before_the_deadline_do_not_move_it(autojump_clock: MockClock) -> None:
    async with running(ChildSpec("alarm", lambda: Alarm([5.0]))) as ref:
        alarm: Alarm = await ref.call(Do(itself))
        for _ in range(9):
            await trio.sleep(1)
            await ref.call(Do(nothing))
    assert alarm.ticks == [5.0]


async def test_a_message_may_bring_the_deadline_forward(autojump_clock: MockClock) -> None:
    async def sooner(alarm: Puppet) -> None:
        assert isinstance(alarm, Alarm)
        alarm.deadlines.insert(0, 2.0)

    async with running(ChildSpec("alarm", lambda: Alarm([50.0]))) as ref:
        alarm: Alarm = await ref.call(Do(itself))
        await ref.call(Do(sooner))
        await trio.sleep(10)
        assert alarm.ticks == [2.0]


async def test_a_background_task_may_bring_the_deadline_forward_and_wake_the_actor(
    autojump_clock: MockClock,
) -> None:
    async def sooner(alarm: Alarm) -> None:
        alarm.deadlines.insert(0, 2.0)
        alarm.wake()
        await trio.sleep(20)

    async def begin(alarm: Puppet) -> None:
        assert isinstance(alarm, Alarm)
        alarm.background(sooner, alarm)

    async with running(ChildSpec("alarm", lambda: Alarm([50.0]))) as ref:
        alarm: Alarm = await ref.call(Do(itself))
        await ref.call(Do(begin))
        await trio.sleep(10)
        assert alarm.ticks == [2.0]


async def test_a_flood_of_messages_does_not_starve_the_deadline(autojump_clock: MockClock) -> None:
    async def slow(_puppet: Puppet) -> None:
        await trio.sleep(0.4)

    class OneByOne(Alarm):
        batch_max = 1

    async with running(ChildSpec("alarm", lambda: OneByOne([1.0]))) as ref:
        alarm: Alarm = await ref.call(Do(itself))
        for _ in range(10):
            ref.cast(Do(slow))
    assert alarm.ticks == [pytest.approx(1.2)]


async def test_work_in_slices_leaves_room_for_messages(autojump_clock: MockClock) -> None:
    """A deadline that stays in the past means "go on at once", and every turn between takes letters."""

    class Sliced(Puppet):
        slices = 100

        def next_deadline(self) -> float | None:
            return 0.0 if self.slices else None

        async def tick(self, _now: float) -> None:
            self.slices -= 1

    async with running(ChildSpec("sliced", Sliced)) as ref:
        actor: Sliced = await ref.call(Do(itself))
        assert 90 < actor.slices < 100


async def test_a_refusal_without_a_caller_crashes_the_actor() -> None:
    class Refusing(Alarm):
        async def tick(self, _now: float) -> None:
            raise Closed("nobody asked")

    async with crashing(Closed, ChildSpec("refusing", lambda: Refusing([0.0])), match="nobody asked"):
        pass


# Statistics.


class Held(Actor):
    @defers(Keep)
    async def keep(self, _message: Keep, reply: Reply[Any]) -> None:
        self.background(self._later, reply)

    async def _later(self, reply: Reply[Any]) -> None:
        await trio.sleep(1)
        reply.resolve(None)


async def test_statistics_show_what_an_actor_does(autojump_clock: MockClock) -> None:
    async with running(ChildSpec("held", Held)) as ref, trio.open_nursery() as nursery:
        nursery.start_soon(Caller(ref, Keep()))
        nursery.start_soon(Caller(ref, Keep()))
        await wait_all_tasks_blocked()
        assert (ref.name, ref.is_down, ref.restarts) == ("held", False, 0)
        assert (ref.counts.depth, ref.counts.depth_highest, ref.counts.handled) == (0, 2, 2)
        assert (unsettled(ref), background_tasks(ref)) == (2, 2)
        assert ref.counts.turns == 1
        await trio.sleep(2)
        assert (unsettled(ref), background_tasks(ref)) == (0, 0)
