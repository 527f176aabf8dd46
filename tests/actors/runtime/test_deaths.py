"""However an actor ends, everybody who waits for it is told, and nothing of it goes on (G15)."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.root import running
from goqueue.errors import ActorDied, Closed, LogStopped
from tests.actors.runtime.troupe import (
    Bug,
    Caller,
    Do,
    Keep,
    Puppet,
    background_tasks,
    crash,
    crashing,
    hang,
    nothing,
    puppet,
    rest,
    start_call,
    unsettled,
)


async def crash_later(_puppet: Puppet) -> None:
    await trio.sleep(1)
    raise Bug("crash")


class Scene:
    """An actor with one caller in each of the places where a caller can wait."""

    def __init__(self, handler: Callable[[Puppet], Awaitable[Any]]) -> None:
        self.spec = puppet("p", mailbox_size_max=1)
        self.handler = handler
        self.callers: dict[str, Caller] = {}

    async def play(self, nursery: trio.Nursery) -> None:
        await self._call(nursery, "deferred", Keep())
        await self._call(nursery, "handled", Do(self.handler))
        await self._call(nursery, "queued", Do(nothing))
        await self._call(nursery, "waits for room", Do(nothing))
        await self._call(nursery, "waits for room too", Do(nothing))

    async def _call(self, nursery: trio.Nursery, place: str, message: Do | Keep) -> None:
        self.callers[place] = start_call(nursery, self.spec.ref, message)
        await wait_all_tasks_blocked()

    def deaths(self) -> list[str]:
        return [place for place, caller in self.callers.items() if isinstance(caller.error, ActorDied)]


async def test_a_crash_tells_every_caller_wherever_it_waits(autojump_clock: MockClock) -> None:
    scene = Scene(crash_later)
    async with trio.open_nursery() as nursery, crashing(Bug, scene.spec):
        await scene.play(nursery)
    assert scene.deaths() == list(scene.callers)
    for caller in scene.callers.values():
        assert isinstance(caller.error, ActorDied)
        assert isinstance(caller.error.__cause__, Bug)
        assert "p crashed: Bug('crash')" in str(caller.error)
    assert unsettled(scene.spec.ref) == 0


async def test_each_caller_gets_an_error_of_its_own(autojump_clock: MockClock) -> None:
    scene = Scene(crash_later)
    async with trio.open_nursery() as nursery, crashing(Bug, scene.spec):
        await scene.play(nursery)
    errors = [caller.error for caller in scene.callers.values()]
    assert all(one is not other for at, one in enumerate(errors) for other in errors[:at])


async def test_a_cancellation_tells_every_caller_wherever_it_waits(autojump_clock: MockClock) -> None:
    scene = Scene(hang)
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(1) as patience:
            async with running(scene.spec):
                await scene.play(nursery)
                await trio.sleep_forever()
    assert patience.cancelled_caught
    assert scene.deaths() == list(scene.callers)
    assert "p was cancelled" in str(scene.callers["queued"].error)


async def test_a_stop_finishes_what_was_asked_and_tells_those_it_deferred(autojump_clock: MockClock) -> None:
    scene = Scene(rest)
    async with trio.open_nursery() as nursery, running(scene.spec):
        await scene.play(nursery)
    assert scene.deaths() == ["deferred"]
    assert "p stopped" in str(scene.callers["deferred"].error)
    assert all(caller.done for caller in scene.callers.values())


async def test_a_stop_that_takes_too_long_is_a_cancellation(autojump_clock: MockClock) -> None:
    scene = Scene(hang)
    scene.spec = puppet("p", mailbox_size_max=1, stop_timeout_seconds=3.0)
    async with trio.open_nursery() as nursery, running(scene.spec):
        await scene.play(nursery)
    assert trio.current_time() == 3.0
    assert scene.deaths() == list(scene.callers)


async def test_a_stop_is_not_held_up_by_a_caller_that_leaves_the_queue_in_the_same_moment(
    autojump_clock: MockClock,
) -> None:
    async def hold(_puppet: Puppet) -> None:
        await gate.wait()

    for _ in range(40):  # which of the tasks runs first is chance
        gate = trio.Event()
        spec = puppet("p", mailbox_size_max=1)
        async with trio.open_nursery() as nursery, running(spec):
            for message in (Do(hold), Do(nothing), Do(nothing)):
                last = start_call(nursery, spec.ref, message)
                await wait_all_tasks_blocked()
            last.scope.cancel()
            gate.set()
    assert trio.current_time() == 0


async def test_nobody_is_let_in_while_an_actor_stops(autojump_clock: MockClock) -> None:
    spec = puppet("p")
    late: list[Caller] = []

    async def ask_late() -> None:
        await trio.sleep(0.5)
        late.append(Caller(spec.ref, Do(nothing)))
        await late[0]()
        with pytest.raises(ActorDied):
            spec.ref.cast(Do(nothing))

    async with trio.open_nursery() as nursery, running(spec):
        start_call(nursery, spec.ref, Do(rest))
        await wait_all_tasks_blocked()
        nursery.start_soon(ask_late)
    assert isinstance(late[0].error, ActorDied)
    assert "p is stopping" in str(late[0].error)


async def test_the_order_of_an_actors_life(autojump_clock: MockClock) -> None:
    journal: list[str] = []
    async with running(puppet("p", journal)) as ref:
        await ref.call(Do(nothing))
        assert journal == ["p starts"]
    assert journal == ["p starts", "p stops", "p closes"]


async def test_a_crashed_actor_is_closed_but_not_stopped() -> None:
    """What crashed is not to be trusted with the disk, but its files and locks are given back."""
    journal: list[str] = []
    async with crashing(Bug, puppet("p", journal)) as doomed:
        doomed.ref.cast(Do(crash))
    assert journal == ["p starts", "p closes"]


async def test_a_failed_start_is_closed_and_raised_bare_and_callers_are_told(autojump_clock: MockClock) -> None:
    class Stillborn(Puppet):
        async def start(self) -> None:
            await super().start()
            await trio.sleep(1)
            raise Closed("no disk")

    journal: list[str] = []
    spec = ChildSpec("p", lambda: Stillborn(journal))

    async def ask_early() -> Caller:
        await trio.sleep(0.5)
        return start_call(nursery, spec.ref, Do(nothing))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_early)
        with pytest.raises(Closed, match="no disk"):
            await _run_for(spec, 1)
    assert journal == ["p starts", "p closes"]
    assert spec.ref.counts.depth_highest == 1
    assert spec.ref.counts.depth == 0


async def test_a_call_during_the_start_waits_for_it(autojump_clock: MockClock) -> None:
    class Slow(Puppet):
        async def start(self) -> None:
            await trio.sleep(1)

    spec = ChildSpec("p", Slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: _run_for(spec, 2.0))
        await wait_all_tasks_blocked()
        early = start_call(nursery, spec.ref, Do(nothing))
        await wait_all_tasks_blocked()
        done = [early.done]
    assert [*done, early.done] == [False, True]
    assert early.error is None


async def _run_for(spec: ChildSpec, seconds: float) -> None:
    async with running(spec):
        await trio.sleep(seconds)


async def test_a_factory_that_fails_is_a_failed_start() -> None:
    def factory() -> Puppet:
        raise Bug("no settings")

    spec = ChildSpec("p", factory)
    with pytest.raises(Bug, match="no settings"):
        async with running(spec):
            pytest.fail("it never started")
    assert spec.ref.is_down


async def test_an_error_in_stop_is_raised_after_everybody_was_told() -> None:
    class Unclean(Puppet):
        async def stop(self) -> None:
            raise LogStopped("the last fsync failed")

    journal: list[str] = []
    callers: list[Caller] = []

    async def run_and_stop() -> None:
        async with running(ChildSpec("p", lambda: Unclean(journal))) as ref:
            callers.append(start_call(nursery, ref, Keep()))
            await wait_all_tasks_blocked()

    async with trio.open_nursery() as nursery:
        with pytest.raises(LogStopped):
            await run_and_stop()
    assert isinstance(callers[0].error, ActorDied)
    assert journal == ["p starts", "p closes"]


async def test_an_error_in_close_does_not_hide_the_crash() -> None:
    class Sloppy(Puppet):
        def close(self) -> None:
            raise OSError("close")

    async with crashing(Bug, ChildSpec("p", Sloppy)) as crashed:
        crashed.ref.cast(Do(crash))
    assert crashed.error is not None
    assert crashed.error.__notes__ == ["close() failed as well: OSError('close')"]
    with pytest.raises(OSError, match="close"):
        async with running(ChildSpec("p", Sloppy)):
            pass


async def test_a_stopped_log_crashes_the_actor_although_it_is_a_goqueue_error() -> None:
    async def write(_puppet: Puppet) -> None:
        raise LogStopped("fsync failed")

    async with trio.open_nursery() as nursery, crashing(LogStopped, puppet("p")) as doomed:
        caller = start_call(nursery, doomed.ref, Do(write))
    assert isinstance(caller.error, ActorDied)


# Background tasks.


def in_background(task: Callable[[Puppet], Awaitable[Any]], *, endless: bool = False) -> Do:
    async def action(actor: Puppet) -> trio.CancelScope:
        return actor.background(task, actor, endless=endless)

    return Do(action)


async def test_a_background_task_runs_while_the_actor_handles_messages(autojump_clock: MockClock) -> None:
    async def answer_later(actor: Puppet) -> None:
        await trio.sleep(1)
        actor.kept[0].resolve("on disk")

    async with running(puppet("p")) as ref, trio.open_nursery() as nursery:
        waiting = start_call(nursery, ref, Keep())
        await wait_all_tasks_blocked()
        await ref.call(in_background(answer_later))
        await ref.call(Do(nothing))
        assert not waiting.done
        await trio.sleep(2)
        assert waiting.answer == "on disk"


async def test_a_crash_in_a_background_task_is_a_crash_of_the_actor(autojump_clock: MockClock) -> None:
    scene = Scene(hang)
    async with trio.open_nursery() as nursery, crashing(Bug, scene.spec) as doomed:
        await doomed.ref.call(in_background(crash_later))
        await scene.play(nursery)
    assert scene.deaths() == list(scene.callers)
    assert all(isinstance(caller.error.__cause__, Bug) for caller in scene.callers.values() if caller.error)


async def test_a_refusal_in_a_background_task_is_a_crash_since_nobody_asked() -> None:
    async def refuse(_puppet: Puppet) -> None:
        raise Closed("no")

    async with crashing(Closed, puppet("p")) as doomed:
        await doomed.ref.call(in_background(refuse))


async def test_a_stop_waits_for_finite_background_tasks_and_for_what_they_lead_to(
    autojump_clock: MockClock,
) -> None:
    """G15: everything accepted is on disk. A write under way, and the one that gathered meanwhile, both end."""
    journal: list[str] = []

    class Writer(Puppet):
        rounds = 2
        writing = False

        async def end_turn(self) -> None:
            if self.rounds and not self.writing:
                self.rounds -= 1
                self.writing = True
                self.background(self._write)

        async def _write(self) -> None:
            await trio.sleep(1)
            self.writing = False
            self.journal.append("written")

    async with running(ChildSpec("p", lambda: Writer(journal))) as ref:
        await ref.call(Do(nothing))
    assert trio.current_time() == 2
    assert journal == ["p starts", "written", "written", "p stops", "p closes"]


async def test_an_endless_background_task_serves_until_stop_has_returned(autojump_clock: MockClock) -> None:
    journal: list[str] = []

    async def serve(_puppet: Puppet) -> None:
        try:
            await trio.sleep_forever()
        finally:
            journal.append("service ends")

    async with running(puppet("p", journal)) as ref:
        await ref.call(in_background(serve, endless=True))
        await ref.call(Do(nothing))
    assert journal == ["p starts", "p stops", "service ends", "p closes"]
    assert trio.current_time() == 0


async def test_an_actor_may_cancel_a_background_task(autojump_clock: MockClock) -> None:
    async with running(puppet("p")) as ref:
        scope: trio.CancelScope = await ref.call(in_background(hang))
        await wait_all_tasks_blocked()
        assert background_tasks(ref) == 1
        scope.cancel()
        await wait_all_tasks_blocked()
        assert background_tasks(ref) == 0


async def test_after_the_end_no_task_is_left(autojump_clock: MockClock) -> None:
    """G15: after a stop nothing runs."""
    before = trio.lowlevel.current_statistics().tasks_living
    async with running(puppet("p", stop_timeout_seconds=1.0)) as ref:
        await ref.call(in_background(hang))
        await ref.call(in_background(hang, endless=True))
    assert trio.lowlevel.current_statistics().tasks_living == before
    assert trio.current_time() == 1.0
