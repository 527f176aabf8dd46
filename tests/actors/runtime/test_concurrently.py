"""Children that do not build on each other: added, removed and stopped some at a time."""

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.concurrently import concurrently
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import AddChildren, RemoveChildren, Supervisor
from goqueue.errors import ActorDied, LogStopped
from tests.actors.runtime.troupe import Bug, Do, Puppet, those_up

SECONDS = 1.0


class Slow(Puppet):
    """Takes a second to start, and a second to stop."""

    under_way = 0
    most_at_once = 0

    async def start(self) -> None:
        await self._take_time()
        await super().start()

    async def stop(self) -> None:
        await self._take_time()
        await super().stop()

    async def _take_time(self) -> None:
        Slow.under_way += 1
        Slow.most_at_once = max(Slow.most_at_once, Slow.under_way)
        await trio.sleep(SECONDS)
        Slow.under_way -= 1


class Failing(Puppet):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def start(self) -> None:
        await trio.lowlevel.checkpoint()
        raise self.error


@pytest.fixture(autouse=True)
def nothing_under_way() -> None:
    Slow.under_way = Slow.most_at_once = 0


def slow(count: int, journal: list[str]) -> tuple[ChildSpec, ...]:
    return tuple(ChildSpec(f"{number:02}", lambda: Slow(journal)) for number in range(count))


async def nothing(_: Puppet) -> None:
    pass


async def test_many_children_are_started_and_stopped_some_at_a_time(autojump_clock: MockClock) -> None:
    journal: list[str] = []
    specs = slow(40, journal)
    async with running(supervised("top", lambda: Supervisor(width=16))) as top:
        begun = trio.current_time()
        assert await top.call(AddChildren(specs)) == tuple(spec.ref for spec in specs)
        assert trio.current_time() - begun == 3 * SECONDS
        assert those_up(*specs) == [spec.name for spec in specs]
        begun = trio.current_time()
    assert trio.current_time() - begun == 3 * SECONDS, "a stop is as wide"
    assert Slow.most_at_once == 16
    assert sum(line.endswith("stops") for line in journal) == 40


async def test_each_gets_its_own_outcome(autojump_clock: MockClock) -> None:
    bug = Bug("cannot")
    specs = (*slow(2, []), ChildSpec("bad", lambda: Failing(bug)))
    async with running(supervised("top", lambda: Supervisor(width=2))) as top:
        *good, bad = await top.call(AddChildren(specs))
        assert bad is bug
        for ref in good:
            assert isinstance(ref, ActorRef)
            await ref.call(Do(nothing))
        again = await top.call(AddChildren((ChildSpec("bad", Puppet),)))
        assert isinstance(again[0], ActorRef), "its place is free"


async def test_removing_takes_those_that_are_there(autojump_clock: MockClock) -> None:
    journal: list[str] = []
    specs = slow(4, journal)
    async with running(supervised("top", lambda: Supervisor(width=4))) as top:
        await top.call(AddChildren(specs))
        await top.call(RemoveChildren(("00", "02", "missing")))
        assert those_up(*specs) == ["01", "03"]
        with pytest.raises(ActorDied):
            await specs[0].ref.call(Do(nothing))


async def test_a_name_that_is_taken_starts_none_of_them(autojump_clock: MockClock) -> None:
    async with running(supervised("top", lambda: Supervisor(width=4))) as top:
        a, b = ChildSpec("a", Puppet), ChildSpec("b", Puppet)
        await top.call(AddChildren((a,)))
        with pytest.raises(ValueError, match="has a child a already"):
            await top.call(AddChildren((b, ChildSpec("a", Puppet))))
        assert those_up(a, b) == ["a"]


async def test_a_stop_breaks_off_a_long_start_of_many(autojump_clock: MockClock) -> None:
    journal: list[str] = []
    async with trio.open_nursery() as nursery:
        async with running(supervised("top", lambda: Supervisor(width=2))) as top:
            outcomes: list[ActorRef | Exception] = []

            async def add() -> None:
                outcomes.extend(await top.call(AddChildren(slow(100, journal))))

            nursery.start_soon(add)
            await trio.sleep(1.5 * SECONDS)
        assert trio.current_time() < 10 * SECONDS
    assert [isinstance(each, ActorRef) for each in outcomes] == [True, True, *[False] * 98]
    assert sorted(line for line in journal if line.endswith("stops")) == ["00 stops", "01 stops"]


async def test_what_no_restart_may_follow_ends_the_supervisor(autojump_clock: MockClock) -> None:
    with pytest.raises(LogStopped):
        await _start_one_with_a_stopped_log()


async def _start_one_with_a_stopped_log() -> None:
    async with running(supervised("top", lambda: Supervisor(width=2))) as top:
        await top.call(AddChildren((ChildSpec("bad", lambda: Failing(LogStopped("unknown"))),)))
        await trio.sleep(1)


async def test_they_are_begun_in_their_order_and_an_error_ends_the_rest(autojump_clock: MockClock) -> None:
    begun: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)
        await trio.sleep(1)
        if number == 3:
            raise Bug("three")

    await concurrently(work, range(3), 2)
    assert sorted(begun[:2]) == [0, 1]
    assert begun[2] == 2
    with pytest.raises(Bug, match="three"):
        await concurrently(work, range(100), 2)
    assert max(begun) <= 5
