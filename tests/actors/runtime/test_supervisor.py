"""Starting in order, stopping in reverse, each within its time; children that come and go (G15)."""

import math

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.reports import ChildReport, Fate
from goqueue.actors.runtime.restarts import NeverRestart
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import AddChildren, RemoveChildren, Supervisor
from goqueue.errors import ActorDied, Closed, GoQueueError, LogStopped
from tests.actors.runtime.troupe import (
    Bug,
    Do,
    Keep,
    Puppet,
    add_child,
    crash,
    crashing,
    nothing,
    puppet,
    rest,
    start_call,
    those_up,
)


class Stillborn(Puppet):
    async def start(self) -> None:
        self.journal.append(f"{self.name} fails")
        raise Bug(f"{self.name} cannot start")


class Stubborn(Puppet):
    """Ignores the wish that it stop."""

    last_words_seconds = 0.0

    async def stop(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.journal.append(f"{self.name} is cancelled at {trio.current_time():g}")
            with trio.CancelScope(shield=True):
                await trio.sleep(self.last_words_seconds)


class UncleanStop(Puppet):
    def __init__(self, journal: list[str], error: Exception) -> None:
        super().__init__(journal)
        self.error = error

    async def stop(self) -> None:
        self.journal.append(f"{self.name} fails to stop")
        raise self.error


def starts_and_stops(journal: list[str]) -> list[str]:
    return [line for line in journal if not line.endswith("closes")]


async def test_children_start_in_order_and_stop_in_reverse() -> None:
    journal: list[str] = []
    specs = [puppet(name, journal) for name in "abc"]
    async with running(supervised("top", lambda: Supervisor(specs))):
        assert journal == ["a starts", "b starts", "c starts"]
        for spec in specs:
            await spec.ref.call(Do(nothing))
    assert journal[3:] == ["c stops", "c closes", "b stops", "b closes", "a stops", "a closes"]


async def test_a_failed_start_stops_the_earlier_children_in_reverse_and_is_raised_bare() -> None:
    journal: list[str] = []
    bad = ChildSpec("c", lambda: Stillborn(journal))
    specs = [puppet("a", journal), puppet("b", journal), bad, puppet("d", journal)]
    before = trio.lowlevel.current_statistics().tasks_living
    with pytest.raises(Bug, match="c cannot start"):
        async with running(supervised("top", lambda: Supervisor(specs))):
            pytest.fail("it never started")
    assert starts_and_stops(journal) == ["a starts", "b starts", "c fails", "b stops", "a stops"]
    assert trio.lowlevel.current_statistics().tasks_living == before
    for spec in specs:
        with pytest.raises(ActorDied):
            await spec.ref.call(Do(nothing))


async def test_a_failed_start_deep_in_the_tree_unwinds_the_whole_tree() -> None:
    journal: list[str] = []
    inner = supervised(
        "inner", lambda: Supervisor([puppet("b", journal), ChildSpec("c", lambda: Stillborn(journal))])
    )
    with pytest.raises(Bug, match="c cannot start"):
        async with running(supervised("top", lambda: Supervisor([puppet("a", journal), inner]))):
            pytest.fail("it never started")
    assert starts_and_stops(journal) == ["a starts", "b starts", "c fails", "b stops", "a stops"]


async def test_a_child_that_ignores_the_stop_is_cancelled_after_its_own_time(autojump_clock: MockClock) -> None:
    journal: list[str] = []
    reports: list[ChildReport] = []

    class LongWinded(Stubborn):
        last_words_seconds = 0.5

    specs = [
        puppet("a", journal),
        ChildSpec("b", lambda: LongWinded(journal), stop_timeout_seconds=2.0),
        ChildSpec("c", lambda: LongWinded(journal), stop_timeout_seconds=3.0),
    ]
    before = trio.lowlevel.current_statistics().tasks_living
    async with running(supervised("top", lambda: Supervisor(specs, report=reports.append))):
        journal.clear()
    in_turn = ["c is cancelled at 3", "c closes", "b is cancelled at 5.5", "b closes", "a stops", "a closes"]
    assert journal == in_turn
    assert [(report.child, report.fate) for report in reports] == [("b", Fate.CUT_OFF), ("c", Fate.CUT_OFF)]
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_a_supervisors_stop_lasts_as_long_as_those_below_it_are_allowed(autojump_clock: MockClock) -> None:
    journal: list[str] = []
    slow = ChildSpec("slow", lambda: Stubborn(journal), stop_timeout_seconds=60.0)
    inner = supervised("inner", lambda: Supervisor([slow]))
    assert inner.stop_timeout_seconds == math.inf
    async with running(supervised("top", lambda: Supervisor([inner]))):
        pass
    assert trio.current_time() == 60.0


async def test_a_second_wish_to_stop_cancels_the_rest_at_once(autojump_clock: MockClock) -> None:
    """G15: as a second signal does."""
    journal: list[str] = []
    slow = ChildSpec("slow", lambda: Stubborn(journal), stop_timeout_seconds=60.0)
    before = trio.lowlevel.current_statistics().tasks_living
    with trio.move_on_after(1):
        async with running(supervised("top", lambda: Supervisor([slow]))):
            pass
    assert journal == ["slow starts", "slow is cancelled at 1", "slow closes"]
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_an_upper_child_may_call_a_lower_one_while_it_stops() -> None:
    lower = puppet("lower")

    class Upper(Puppet):
        async def stop(self) -> None:
            await lower.ref.call(Do(nothing))

    async with running(supervised("top", lambda: Supervisor([lower, ChildSpec("upper", Upper)]))):
        pass
    assert lower.ref.counts.handled == 1


@pytest.mark.parametrize("worst", [LogStopped("fsync"), NeverRestart("invariant")])
async def test_an_error_in_a_stop_lets_the_others_stop_and_the_worst_is_raised(worst: Exception) -> None:
    journal: list[str] = []
    reports: list[ChildReport] = []
    specs = [
        puppet("a", journal),
        ChildSpec("b", lambda: UncleanStop(journal, worst)),
        ChildSpec("c", lambda: UncleanStop(journal, Bug("less bad"))),
    ]
    with pytest.raises(type(worst)) as raised:
        async with running(supervised("top", lambda: Supervisor(specs, report=reports.append))):
            journal.clear()
    assert raised.value is worst
    assert starts_and_stops(journal) == ["c fails to stop", "b fails to stop", "a stops"]
    assert [(report.child, report.fate) for report in reports] == [("b", Fate.STOP_FAILED), ("c", Fate.STOP_FAILED)]


async def test_two_children_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="there is a child a already"):
        Supervisor([puppet("a"), puppet("a")])


# Children that come and go.


async def test_children_are_added_last_and_removed_by_name() -> None:
    journal: list[str] = []
    a, b, c = specs = [puppet(name, journal) for name in "abc"]
    async with running(supervised("top", lambda: Supervisor([a]))) as top:
        assert await add_child(top, b) == b.ref
        await add_child(top, c)
        await b.ref.call(Do(nothing))
        assert those_up(*specs) == ["a", "b", "c"]
        await top.call(RemoveChildren(("b",)))
        assert those_up(*specs) == ["a", "c"]
        with pytest.raises(ActorDied, match="b is down"):
            await b.ref.call(Do(nothing))
    assert starts_and_stops(journal) == ["a starts", "b starts", "c starts", "b stops", "c stops", "a stops"]


async def test_removing_twice_is_harmless() -> None:
    async with running(supervised("top", lambda: Supervisor([puppet("a")]))) as top:
        for _ in range(2):
            await top.call(RemoveChildren(("a",)))


async def test_an_added_child_that_cannot_start_is_forgotten_and_its_error_goes_to_who_added_it() -> None:
    async with running(supervised("top", lambda: Supervisor([puppet("a")]))) as top:
        with pytest.raises(Bug, match="b cannot start"):
            await add_child(top, ChildSpec("b", Stillborn))
        await add_child(top, puppet("b"))


async def test_a_name_that_is_taken_is_refused_and_changes_nothing() -> None:
    taken = puppet("a")
    async with running(supervised("top", lambda: Supervisor([taken]))) as top:
        with pytest.raises(ValueError, match="top has a child a already"):
            await add_child(top, puppet("a"))
        await taken.ref.call(Do(nothing))


async def test_a_removal_whose_asker_was_cancelled_is_completed(autojump_clock: MockClock) -> None:
    spec = puppet("a")
    async with running(supervised("top", lambda: Supervisor([spec]))) as top:
        spec.ref.cast(Do(rest))
        with trio.move_on_after(0.5):
            await top.call(RemoveChildren(("a",)))
        await add_child(top, puppet("a"))
        assert trio.current_time() == 1


async def test_a_stop_breaks_off_a_start_that_takes_long(autojump_clock: MockClock) -> None:
    """G15: a child that recovers for an hour does not hold up the shutdown."""
    journal: list[str] = []

    class Slow(Puppet):
        async def start(self) -> None:
            self.journal.append("slow begins to start")
            await trio.sleep(3600)

    top = supervised("top", lambda: Supervisor([puppet("a", journal)]))
    async with trio.open_nursery() as nursery, running(top):
        adding = start_call(nursery, top.ref, AddChildren((ChildSpec("slow", lambda: Slow(journal)),)))
        await trio.sleep(1)
        queued = start_call(nursery, top.ref, AddChildren((puppet("late", journal),)))
        await wait_all_tasks_blocked()
    assert trio.current_time() == 1
    assert [type(error) for error in (*adding.answer, *queued.answer)] == [ActorDied, ActorDied]
    assert journal == ["a starts", "slow begins to start", "slow closes", "a stops", "a closes"]


async def test_a_crash_that_a_stop_overtakes_is_not_restarted_but_reported_and_raised(
    autojump_clock: MockClock,
) -> None:
    class Slow(Puppet):
        async def start(self) -> None:
            await trio.sleep(3600)

    journal: list[str] = []
    reports: list[ChildReport] = []
    first, second = puppet("a", journal), puppet("b", journal)

    async def run_and_stop() -> None:
        async with running(supervised("top", lambda: Supervisor([first, second], report=reports.append))) as top:
            start_call(nursery, top, AddChildren((ChildSpec("slow", Slow),)))
            await wait_all_tasks_blocked()
            second.ref.cast(Do(crash))  # the supervisor is busy with the slow one
            start_call(nursery, top, RemoveChildren(()))  # and will have one more turn
            await wait_all_tasks_blocked()

    async with trio.open_nursery() as nursery:
        with pytest.raises(Bug):
            await run_and_stop()
    assert starts_and_stops(journal) == ["a starts", "b starts", "a stops"]
    assert [(report.child, report.fate) for report in reports] == [("b", Fate.LOST)]


async def test_an_added_child_with_an_error_that_no_restart_may_follow_ends_the_supervisor() -> None:
    class Poisoned(Puppet):
        async def start(self) -> None:
            raise LogStopped("unknown state")

    journal: list[str] = []
    top = supervised("top", lambda: Supervisor([puppet("a", journal)]))
    async with trio.open_nursery() as nursery, crashing(LogStopped, top):
        adding = start_call(nursery, top.ref, AddChildren((ChildSpec("b", Poisoned),)))
    assert [type(error) for error in adding.answer] == [LogStopped]
    assert journal == ["a starts", "a stops", "a closes"]


async def test_a_removed_child_with_an_error_that_no_restart_may_follow_ends_the_supervisor() -> None:
    journal: list[str] = []
    bad = ChildSpec("b", lambda: UncleanStop(journal, LogStopped("fsync")))
    async with crashing(LogStopped, supervised("top", lambda: Supervisor([puppet("a", journal), bad]))) as doomed:
        await doomed.ref.call(RemoveChildren(("b",)))
    assert starts_and_stops(journal) == ["a starts", "b starts", "b fails to stop", "a stops"]


async def test_a_removal_of_a_child_that_waits_for_its_crashed_sibling_is_not_held_up(
    autojump_clock: MockClock,
) -> None:
    """A busy supervisor cannot restart at once, so the crashed one refuses: nobody waits out a time limit."""
    lower, upper = puppet("lower"), puppet("upper")

    refusals: list[type[GoQueueError]] = []

    async def crash_later(_puppet: Puppet) -> None:
        await trio.sleep(1)
        raise Bug("crash")

    async def insist(_puppet: Puppet) -> None:
        for _ in range(2):
            try:
                await lower.ref.call(Do(crash_later))
            except GoQueueError as error:
                refusals.append(type(error))

    async with running(supervised("top", lambda: Supervisor([lower, upper]))) as top:
        upper.ref.cast(Do(insist))
        await wait_all_tasks_blocked()
        await top.call(RemoveChildren(("upper",)))
        assert trio.current_time() == 1
        assert refusals == [ActorDied, ActorDied]
        await lower.ref.call(Do(nothing))


async def test_the_reports_name_supervisor_child_fate_and_error() -> None:
    reports: list[ChildReport] = []
    spec = puppet("a")
    async with running(supervised("top", lambda: Supervisor([spec], report=reports.append))):
        spec.ref.cast(Do(crash))
        await wait_all_tasks_blocked()
    [report] = reports
    assert (report.supervisor, report.child, report.fate) == ("top", "a", Fate.RESTARTING)
    assert isinstance(report.error, Bug)


async def test_without_a_listener_reports_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    spec = puppet("a")
    async with running(supervised("top", lambda: Supervisor([spec]))):
        with pytest.raises(ActorDied):
            await spec.ref.call(Do(crash))
        await spec.ref.call(Do(nothing))
    [record] = caplog.records
    assert record.getMessage() == "restart 1 of a after Bug: crash (a child of top)"


async def test_callers_of_a_cancelled_tree_are_told_also_those_who_wait_for_a_restart(
    autojump_clock: MockClock,
) -> None:
    class SlowAgain(Puppet):
        starts = 0

        async def start(self) -> None:
            SlowAgain.starts += 1
            await trio.sleep(0 if SlowAgain.starts == 1 else 3600)

    spec, other = ChildSpec("a", SlowAgain), puppet("b")
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(1):
            async with running(supervised("top", lambda: Supervisor([spec, other]))):
                spec.ref.cast(Do(crash))
                await wait_all_tasks_blocked()
                waits_for_restart = start_call(nursery, spec.ref, Do(nothing))
                deferred = start_call(nursery, other.ref, Keep())
                await wait_all_tasks_blocked()
                assert not waits_for_restart.done
                await trio.sleep_forever()
    assert isinstance(waits_for_restart.error, ActorDied)
    assert isinstance(deferred.error, ActorDied)


async def test_a_child_may_refuse_to_be_added_with_a_typed_error() -> None:
    class Refusing(Puppet):
        async def start(self) -> None:
            raise Closed("the folder is another topic's")

    async with running(supervised("top", Supervisor)) as top:
        with pytest.raises(Closed, match="another topic"):
            await add_child(top, ChildSpec("p", Refusing))
