"""A ref outlives the restarts of its actor: what callers, and those who tell news, see of a restart."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.reports import ChildReport
from goqueue.actors.runtime.restarts import Strategy, TooManyRestarts
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import Supervisor
from goqueue.errors import ActorDied
from tests.actors.runtime.troupe import (
    Bug,
    Do,
    Fact,
    Keep,
    Puppet,
    calling,
    crash,
    crashing,
    itself,
    nothing,
    puppet,
    start_call,
)


def no_report(_report: ChildReport) -> None:
    pass


class SlowSecondStart(Puppet):
    starts = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).starts += 1

    async def start(self) -> None:
        if self.starts > 1:
            await trio.sleep(2)


@pytest.fixture
def slow_spec() -> ChildSpec:
    class Slow(SlowSecondStart):
        pass

    return ChildSpec("slow", Slow)


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_a_call_during_a_restart_waits_for_it(
    strategy: Strategy, slow_spec: ChildSpec, autojump_clock: MockClock
) -> None:
    after = puppet("after")
    top = supervised("top", lambda: Supervisor([slow_spec, after], strategy=strategy, report=no_report))
    async with running(top), trio.open_nursery() as nursery:
        slow_spec.ref.cast(Do(crash))
        await trio.sleep(1)
        callers = [start_call(nursery, spec.ref, Do(nothing)) for spec in (slow_spec, after)]
        await wait_all_tasks_blocked()
        assert not callers[0].done
        await trio.sleep(2)
        assert all(caller.done and caller.error is None for caller in callers)


async def test_a_call_right_after_a_crash_waits_for_the_restart() -> None:
    spec = puppet("a")
    async with running(supervised("top", lambda: Supervisor([spec], restarts_max=30, report=no_report))):
        for _ in range(30):  # whether the caller or the supervisor runs first is chance
            with pytest.raises(ActorDied):
                await spec.ref.call(Do(crash))
            await spec.ref.call(Do(nothing))


async def test_a_caller_bounds_its_wait_for_a_restart(slow_spec: ChildSpec, autojump_clock: MockClock) -> None:
    async with running(supervised("top", lambda: Supervisor([slow_spec], report=no_report))):
        slow_spec.ref.cast(Do(crash))
        await trio.sleep(1)
        with trio.move_on_after(0.5) as patience:
            await slow_spec.ref.call(Do(nothing))
        assert patience.cancelled_caught


async def test_callers_who_wait_for_a_restart_are_told_when_it_is_given_up(autojump_clock: MockClock) -> None:
    class FailsLate(SlowSecondStart):
        async def start(self) -> None:
            await super().start()
            if self.starts > 1:
                raise Bug("in vain")

    spec = ChildSpec("a", FailsLate)
    top = supervised("top", lambda: Supervisor([spec], restarts_max=1, report=no_report))
    async with trio.open_nursery() as nursery, crashing(TooManyRestarts, top):
        spec.ref.cast(Do(crash))
        await trio.sleep(1)
        waiting = start_call(nursery, spec.ref, Do(nothing))
    assert isinstance(waiting.error, ActorDied)


async def test_a_sibling_that_calls_the_crashed_one_does_not_hold_up_the_restart(autojump_clock: MockClock) -> None:
    """The supervisor stops the caller first; were the call to wait, each would wait for the other."""
    lower, upper = puppet("lower"), puppet("upper")
    top = supervised(
        "top",
        lambda: Supervisor([lower, upper], strategy=Strategy.REST_FOR_ONE, restarts_max=30, report=no_report),
    )

    async def insist(_puppet: Puppet) -> None:
        for _ in range(2):
            with pytest.raises(ActorDied):
                await lower.ref.call(Keep())

    async with running(top):
        for _ in range(30):  # whether the caller or the supervisor runs first is chance
            upper.ref.cast(Do(insist))
            await wait_all_tasks_blocked()
            lower.ref.cast(Do(crash))
            await wait_all_tasks_blocked()
            await upper.ref.call(Do(nothing))
        assert trio.current_time() == 0


async def test_a_sibling_that_waits_for_one_whose_restart_is_put_off_does_not_hold_up_the_next_try(
    autojump_clock: MockClock,
) -> None:
    """All are restarted; the second fails after the first ran again and called the third."""
    tries = 0

    class SecondFails(Puppet):
        async def start(self) -> None:
            nonlocal tries
            tries += 1
            if tries == 2:
                await trio.sleep(1)
                raise Bug("not yet")

    first, second, third = puppet("first"), ChildSpec("second", SecondFails), puppet("third")
    specs = [first, second, third]
    top = supervised("top", lambda: Supervisor(specs, strategy=Strategy.REST_FOR_ONE, report=no_report))
    async with running(top), trio.open_nursery() as nursery:
        first.ref.cast(Do(crash))
        await trio.sleep(0.5)
        asking = start_call(nursery, first.ref, calling(third.ref, Do(nothing)))
        await trio.sleep(1)
        assert isinstance(asking.error, ActorDied)
        await first.ref.call(calling(third.ref, Do(nothing)))
        assert trio.current_time() == 1.5


async def test_news_told_during_a_restart_is_heard_by_the_new_actor(
    slow_spec: ChildSpec, autojump_clock: MockClock
) -> None:
    async with running(supervised("top", lambda: Supervisor([slow_spec], report=no_report))) as _:
        slow_spec.ref.cast(Do(crash))
        await trio.sleep(1)
        slow_spec.ref.news("s", Fact(1))
        actor: Puppet = await slow_spec.ref.call(Do(itself))
        assert actor.facts == [("s", Fact(1))]


async def test_news_that_a_crashed_actor_did_not_hear_is_heard_by_its_successor(autojump_clock: MockClock) -> None:
    async def crash_later(_puppet: Puppet) -> None:
        await trio.sleep(1)
        raise Bug("crash")

    spec = puppet("a")
    async with running(supervised("top", lambda: Supervisor([spec], report=no_report))):
        spec.ref.cast(Do(crash_later))
        await wait_all_tasks_blocked()
        spec.ref.news("s", Fact(1))
        await trio.sleep(2)
        actor: Puppet = await spec.ref.call(Do(itself))
        assert actor.facts == [("s", Fact(1))]


async def test_an_actor_that_calls_a_crashing_one_gets_a_refusal_and_lives() -> None:
    lower, upper = puppet("lower"), puppet("upper")
    async with running(supervised("top", lambda: Supervisor([lower, upper], report=no_report))):
        with pytest.raises(ActorDied, match="lower crashed"):
            await upper.ref.call(calling(lower.ref, Do(crash)))
        await upper.ref.call(Do(nothing))
        assert upper.ref.restarts == 0
