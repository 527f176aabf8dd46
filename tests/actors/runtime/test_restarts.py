"""Who is started again, together with whom, how often, and what callers see of it."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.reports import ChildReport, Fate
from goqueue.actors.runtime.restarts import (
    NeverRestart,
    RestartBudget,
    Strategy,
    TooManyRestarts,
    never_restarts,
)
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import Supervisor
from goqueue.errors import ActorDied, DiskFull, LogStopped
from tests.actors.runtime.troupe import (
    Bug,
    Do,
    Puppet,
    add_child,
    crash,
    crashing,
    itself,
    nothing,
    puppet,
    start_call,
)


def no_report(_report: ChildReport) -> None:
    pass


async def settle() -> None:
    await wait_all_tasks_blocked()


def family(journal: list[str], strategy: Strategy, **options: int) -> tuple[list[ChildSpec], ChildSpec]:
    specs = [puppet(name, journal) for name in "abc"]
    top = supervised("top", lambda: Supervisor(specs, strategy=strategy, report=no_report, **options))
    return specs, top


def without_closes(journal: list[str]) -> list[str]:
    return [line for line in journal if not line.endswith("closes")]


# Strategies.


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.ONE_FOR_ONE, ["b starts"]),
        (Strategy.REST_FOR_ONE, ["c stops", "b starts", "c starts"]),
    ],
)
async def test_the_strategy_says_who_is_restarted_with_the_crashed_one(
    strategy: Strategy, expected: list[str]
) -> None:
    journal: list[str] = []
    specs, top = family(journal, strategy)
    async with running(top):
        journal.clear()
        with pytest.raises(ActorDied):
            await specs[1].ref.call(Do(crash))
        await settle()
        assert without_closes(journal) == expected
        for spec in specs:
            await spec.ref.call(Do(nothing))


async def test_state_is_built_anew_by_the_factory() -> None:
    specs, top = family([], Strategy.ONE_FOR_ONE)
    async with running(top):
        before = await specs[0].ref.call(Do(itself))
        specs[0].ref.cast(Do(crash))
        await settle()
        assert await specs[0].ref.call(Do(itself)) is not before
        assert specs[0].ref.restarts == 1


async def test_children_added_later_are_the_rest_of_those_before_them() -> None:
    journal: list[str] = []
    specs, top = family(journal, Strategy.REST_FOR_ONE)
    async with running(top) as ref:
        await add_child(ref, puppet("d", journal))
        journal.clear()
        specs[2].ref.cast(Do(crash))
        await settle()
        assert without_closes(journal) == ["d stops", "c starts", "d starts"]


async def test_several_that_crash_at_once_are_looked_after_in_the_order_of_their_start() -> None:
    journal: list[str] = []
    specs, top = family(journal, Strategy.ONE_FOR_ONE)
    async with running(top):
        journal.clear()
        for spec in reversed(specs):
            spec.ref.cast(Do(crash))
        await settle()
        assert without_closes(journal) == ["a starts", "b starts", "c starts"]


# How often.


def test_the_budget_allows_so_many_restarts_in_any_window() -> None:
    budget = RestartBudget(restarts_max=2, window_seconds=10.0)
    assert [budget.spend(now) for now in (0.0, 5.0, 9.9, 10.0, 14.9, 15.0)] == [
        True,
        True,
        False,
        True,
        False,
        True,
    ]


async def test_too_many_restarts_stop_all_children_in_order_and_give_up_upwards(autojump_clock: MockClock) -> None:
    journal: list[str] = []
    specs, top = family(journal, Strategy.ONE_FOR_ONE, restarts_max=2)
    async with crashing(
        TooManyRestarts, top, match="top gives up on b: more than 2 restarts within 5 s"
    ) as given_up:
        for _ in range(3):
            journal.clear()
            specs[1].ref.cast(Do(crash))
            await trio.sleep(1)
    assert given_up.error is not None
    assert isinstance(given_up.error.__cause__, Bug)
    assert journal == ["b closes", "c stops", "c closes", "a stops", "a closes"]


async def test_crashes_far_apart_never_exhaust_the_budget(autojump_clock: MockClock) -> None:
    specs, top = family([], Strategy.ONE_FOR_ONE, restarts_max=1)
    async with running(top):
        for _ in range(20):
            specs[1].ref.cast(Do(crash))
            await trio.sleep(5.1)
        assert specs[1].ref.restarts == 20


async def test_a_supervisor_that_gave_up_is_restarted_by_the_one_above_with_all_below_it(
    autojump_clock: MockClock,
) -> None:
    journal: list[str] = []
    a, b = puppet("a", journal), puppet("b", journal)
    inner = supervised("inner", lambda: Supervisor([a, b], restarts_max=0, report=no_report))
    top = supervised("top", lambda: Supervisor([inner], report=no_report))
    async with running(top):
        journal.clear()
        b.ref.cast(Do(crash))
        await settle()
        assert without_closes(journal) == ["a stops", "a starts", "b starts"]
        await a.ref.call(Do(nothing))
        await b.ref.call(Do(nothing))
        assert (b.ref.restarts, inner.ref.restarts) == (1, 1)


async def test_children_added_to_a_supervisor_that_was_restarted_are_gone_and_say_so(
    autojump_clock: MockClock,
) -> None:
    a = puppet("a")
    inner = supervised("inner", lambda: Supervisor([a], restarts_max=0, report=no_report))
    async with running(supervised("top", lambda: Supervisor([inner], report=no_report))):
        added = await add_child(inner.ref, puppet("added"))
        a.ref.cast(Do(crash))
        await settle()
        await a.ref.call(Do(nothing))
        with pytest.raises(ActorDied):
            await added.call(Do(nothing))


class FailsToStart(Puppet):
    """Starts once, then fails as often as told, then starts again."""

    def __init__(self, plan: list[bool], journal: list[str]) -> None:
        super().__init__(journal)
        self.plan = plan

    async def start(self) -> None:
        if not self.plan.pop(0):
            self.journal.append(f"{self.name} fails")
            raise Bug("not yet")
        await super().start()


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.ONE_FOR_ONE, ["b fails", "b fails", "b starts"]),
        (Strategy.REST_FOR_ONE, ["c stops", "b fails", "b fails", "b starts", "c starts"]),
    ],
)
async def test_a_restart_that_fails_is_one_more_crash(
    strategy: Strategy, expected: list[str], autojump_clock: MockClock
) -> None:
    journal: list[str] = []
    plan = [True, False, False, True]
    b = ChildSpec("b", lambda: FailsToStart(plan, journal))
    specs = [puppet("a", journal), b, puppet("c", journal)]
    async with running(supervised("top", lambda: Supervisor(specs, strategy=strategy, report=no_report))):
        journal.clear()
        b.ref.cast(Do(crash))
        await settle()
        assert without_closes(journal) == expected
        for spec in specs:
            await spec.ref.call(Do(nothing))


async def test_restarts_that_fail_exhaust_the_budget(autojump_clock: MockClock) -> None:
    journal: list[str] = []
    plan = [True] + [False] * 50
    b = ChildSpec("b", lambda: FailsToStart(plan, journal))
    async with crashing(
        TooManyRestarts, supervised("top", lambda: Supervisor([b], restarts_max=4, report=no_report))
    ):
        b.ref.cast(Do(crash))
    assert journal.count("b fails") == 4


async def test_a_child_that_builds_on_another_crashed_one_is_started_after_it(autojump_clock: MockClock) -> None:
    """Both crash; the upper one calls the lower one when it starts, and must not wait for ever."""
    lower = puppet("lower")

    class Upper(Puppet):
        async def start(self) -> None:
            await lower.ref.call(Do(nothing))

    upper = ChildSpec("upper", Upper)
    async with running(supervised("top", lambda: Supervisor([lower, upper], report=no_report))):
        upper.ref.cast(Do(crash))
        lower.ref.cast(Do(crash))
        await settle()
        assert (lower.ref.restarts, upper.ref.restarts) == (1, 1)
        await upper.ref.call(Do(nothing))


# What must never be restarted in place.


def test_a_broken_invariant_and_a_stopped_log_are_known_also_within_groups() -> None:
    class Broken(NeverRestart):
        pass

    assert never_restarts(Broken())
    assert never_restarts(LogStopped("fsync"))
    assert never_restarts(ExceptionGroup("both", [Bug(), ExceptionGroup("inner", [Broken()])]))
    assert not never_restarts(DiskFull("full"))
    assert not never_restarts(None)


@pytest.mark.parametrize("error", [LogStopped("fsync failed"), NeverRestart("watermark fell")])
async def test_an_error_that_no_restart_may_follow_stops_the_whole_tree_in_order(
    error: Exception,
) -> None:
    """The node stops; G15 holds for it too."""
    journal: list[str] = []
    reports: list[ChildReport] = []

    async def fail(_puppet: Puppet) -> None:
        raise error

    bad = puppet("bad", journal)
    inner = supervised(
        "inner", lambda: Supervisor([puppet("b", journal), bad, puppet("c", journal)], report=no_report)
    )
    top = supervised("top", lambda: Supervisor([puppet("a", journal), inner], report=reports.append))
    async with trio.open_nursery() as nursery, crashing(type(error), top) as raised:
        journal.clear()
        caller = start_call(nursery, bad.ref, Do(fail))
    assert isinstance(caller.error, ActorDied)
    assert raised.error is error
    assert without_closes(journal) == ["c stops", "b stops", "a stops"]
    assert [(report.child, report.fate) for report in reports] == [("inner", Fate.GIVEN_UP)]


async def test_such_an_error_in_the_stop_of_a_sibling_is_not_hidden_by_the_restart() -> None:
    class Unclean(Puppet):
        async def stop(self) -> None:
            raise LogStopped("the last fsync failed")

    journal: list[str] = []
    first = puppet("a", journal)
    specs = [first, ChildSpec("b", Unclean)]
    top = supervised("top", lambda: Supervisor(specs, strategy=Strategy.REST_FOR_ONE, report=no_report))
    async with crashing(LogStopped, top):
        first.ref.cast(Do(crash))
    assert journal == ["a starts", "a closes"]


async def test_such_an_error_in_the_stop_of_a_sibling_is_not_hidden_by_giving_up() -> None:
    class Unclean(Puppet):
        async def stop(self) -> None:
            raise LogStopped("the last fsync failed")

    first = puppet("a")
    inner = supervised(
        "inner", lambda: Supervisor([first, ChildSpec("b", Unclean)], restarts_max=0, report=no_report)
    )
    async with crashing(LogStopped, supervised("top", lambda: Supervisor([inner], report=no_report))):
        first.ref.cast(Do(crash))


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_every_crash_is_reported_also_when_one_restart_answers_several(strategy: Strategy) -> None:
    reports: list[ChildReport] = []
    specs = [puppet(name) for name in "abc"]
    async with running(supervised("top", lambda: Supervisor(specs, strategy=strategy, report=reports.append))):
        for spec in specs:
            spec.ref.cast(Do(crash))
        await settle()
    assert sorted(report.child for report in reports) == ["a", "b", "c"]
