"""A board: what an actor shows, read without a message, also by those who wait for the actor to start."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.reports import ChildReport
from goqueue.actors.runtime.restarts import TooManyRestarts
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import Supervisor
from goqueue.errors import ActorDied
from tests.actors.runtime.troupe import Bug, Do, Puppet, crash, crashing


def no_report(_report: ChildReport) -> None:
    pass


class Shows(Puppet):
    """Its second start takes two seconds, and fails if `fails` is set."""

    starts, fails = 0, False

    async def start(self) -> None:
        type(self).starts += 1
        if self.starts > 1:
            await trio.sleep(2)
            if self.fails:
                raise Bug("in vain")
        self.show(f"life {self.starts}")

    def close(self) -> None:
        self.show(None)


@pytest.fixture
def spec() -> ChildSpec:
    class Fresh(Shows):
        pass

    return ChildSpec("a", Fresh)


async def test_a_look_is_no_message(spec: ChildSpec) -> None:
    async with running(spec):
        before = spec.ref.counts.handled
        assert spec.ref.board == await spec.ref.shown() == "life 1"
        assert spec.ref.counts.handled == before
    assert spec.ref.board is None


async def test_whoever_looks_during_a_restart_waits_for_it(spec: ChildSpec, autojump_clock: MockClock) -> None:
    seen: list[object] = []

    async def look() -> None:
        seen.append(await spec.ref.shown())

    top = supervised("top", lambda: Supervisor([spec], report=no_report))
    async with running(top), trio.open_nursery() as nursery:
        spec.ref.cast(Do(crash))
        await trio.sleep(1)
        assert spec.ref.board is None
        for _ in range(3):
            nursery.start_soon(look)
        await wait_all_tasks_blocked()
        assert seen == []
        await trio.sleep(2)
        assert seen == ["life 2"] * 3
        assert spec.ref.counts.handled == 0


async def test_whoever_looks_is_told_when_the_restart_is_given_up(
    spec: ChildSpec, autojump_clock: MockClock
) -> None:
    errors: list[ActorDied] = []

    async def look() -> None:
        with pytest.raises(ActorDied) as raised:
            await spec.ref.shown()
        errors.append(raised.value)

    Shows.fails = True
    try:
        top = supervised("top", lambda: Supervisor([spec], restarts_max=1, report=no_report))
        async with trio.open_nursery() as nursery, crashing(TooManyRestarts, top):
            spec.ref.cast(Do(crash))
            await trio.sleep(1)
            nursery.start_soon(look)
            await trio.sleep(3)
    finally:
        Shows.fails = False
    assert len(errors) == 1
    with pytest.raises(ActorDied):
        await spec.ref.shown()
