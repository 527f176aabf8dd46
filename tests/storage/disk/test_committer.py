"""Group commit: who waits for which sync, and who is told of a failure."""

from collections.abc import Sequence
from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.environment import File
from goqueue.errors import Closed, DiskFailed, GoQueueError
from goqueue.storage.disk.committer import Committer
from goqueue.testing.determinism import run_deterministically
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Buffer


@pytest.fixture
async def committer(disk: SimulatedDisk, nursery: trio.Nursery) -> Committer:
    committer = Committer(disk)
    await nursery.start(committer.run)
    return committer


async def new_file(disk: SimulatedDisk, path: str) -> File:
    file = disk.open(path, create=True)
    await disk.sync_directory("/")
    return file


async def contents(disk: SimulatedDisk, path: str) -> bytes:
    return await disk.open(path).read(0, disk.size(path))


class Waiter:
    """Somebody who waits for a sync, and what came of it."""

    def __init__(self, nursery: trio.Nursery, committer: Committer, *targets: File | str) -> None:
        self.answer: Exception | str = "waiting"
        self.answered_at = -1.0
        self._committer = committer
        self._files = [target for target in targets if not isinstance(target, str)]
        self._directories = [target for target in targets if isinstance(target, str)]
        self.scope = trio.CancelScope()
        nursery.start_soon(self._wait)

    async def _wait(self) -> None:
        with self.scope:
            try:
                await self._committer.sync(self._files, self._directories)
                self.answer = "durable"
            except (GoQueueError, OSError, ValueError) as error:
                self.answer = error
            self.answered_at = trio.current_time()


# Rounds.


async def test_a_thousand_callers_at_once_share_one_sync(
    committer: Committer, disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    file = await new_file(disk, "/a")
    waiters = [Waiter(nursery, committer, file) for _ in range(1_000)]
    await trio.sleep(1)
    assert {waiter.answer for waiter in waiters} == {"durable"}
    assert committer.syncs == disk.counts.syncs <= 2


async def test_a_thousand_callers_one_after_the_other_share_a_few_syncs(
    committer: Committer, disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    file = await new_file(disk, "/a")
    disk.faults.sync_seconds = (0.001, 0.001)
    waiters = []
    for _ in range(1_000):
        waiters.append(Waiter(nursery, committer, file))
        await trio.sleep(0.000_01)
    await trio.sleep(1)
    assert {waiter.answer for waiter in waiters} == {"durable"}
    assert committer.syncs == disk.counts.syncs <= 12


async def test_a_caller_during_a_round_waits_for_the_next_one(
    committer: Committer, disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """What it wrote came too late for the sync under way."""
    file = await new_file(disk, "/a")
    disk.faults.sync_seconds = (1.0, 1.0)
    began = trio.current_time()
    early = Waiter(nursery, committer, file)
    await trio.sleep(0.5)
    late = Waiter(nursery, committer, file)
    await trio.sleep(5)
    assert early.answered_at - began == pytest.approx(1.0)
    assert late.answered_at - began == pytest.approx(2.0)
    assert committer.rounds == 2


async def test_what_was_written_before_a_call_is_durable_after_it(
    committer: Committer, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G1"""
    file = await new_file(disk, "/a")
    random = Random(1)

    async def write(position: int) -> None:
        await trio.sleep(random.uniform(0, 0.02))
        file.write(position, [b"x"])
        await committer.sync([file])
        for _ in range(5):
            assert (await contents(disk.crash(), "/a"))[position : position + 1] == b"x"

    async with trio.open_nursery() as writers:
        for position in range(60):
            writers.start_soon(write, position)
    assert committer.rounds < 40


async def test_a_name_is_durable_once_its_folder_is_synced(
    committer: Committer, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    disk.make_directory("/data")
    await committer.sync(directories=["/"])
    file = disk.open("/data/a", create=True)
    file.write(0, [b"x"])
    await committer.sync([file], ["/data"])
    for _ in range(20):
        assert await contents(disk.crash(), "/data/a") == b"x"


async def test_the_files_of_a_round_sync_side_by_side(
    committer: Committer, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    files = [await new_file(disk, f"/{number}") for number in range(100)]
    disk.faults.sync_seconds = (1.0, 1.0)
    began = trio.current_time()
    await committer.sync(files, ["/"])
    assert trio.current_time() - began == pytest.approx(1.0)
    assert (committer.rounds, committer.syncs) == (1, 101)


async def test_a_file_named_twice_is_synced_once_and_no_file_is_fine(
    committer: Committer, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    file = await new_file(disk, "/a")
    await committer.sync([file, file])
    await committer.sync()
    assert committer.syncs == 1


async def test_who_has_nothing_to_sync_does_not_wait_for_the_round_of_others(
    committer: Committer, disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """No round would come after it."""
    file = await new_file(disk, "/a")
    other = Waiter(nursery, committer, file)
    await trio.lowlevel.checkpoint()
    nothing = Waiter(nursery, committer)
    await trio.sleep(1)
    assert (other.answer, nothing.answer) == ("durable", "durable")


async def test_a_committer_that_nobody_asks_does_nothing(committer: Committer, autojump_clock: MockClock) -> None:
    await trio.sleep(3_600)
    assert (committer.rounds, committer.syncs) == (0, 0)


# Failures.


async def test_a_failure_reaches_exactly_those_whose_file_failed(
    committer: Committer, disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    disk.make_directory("/data")
    good, bad = await new_file(disk, "/good"), await new_file(disk, "/bad")
    Waiter(nursery, committer, "/")
    await wait_all_tasks_blocked()
    disk.fail_next_sync("/bad")
    disk.fail_next_sync("/data")
    asked: list[tuple[File | str, ...]] = [(good,), (bad,), (good, bad), ("/",), (good, "/data"), (good, "/")]
    waiters = [Waiter(nursery, committer, *targets) for targets in asked]
    await trio.sleep(1)
    answers = [waiter.answer for waiter in waiters]
    failed = [error.details["path"] if isinstance(error, DiskFailed) else error for error in answers]
    assert failed == ["durable", "/bad", "/bad", "durable", "/data", "durable"]
    assert committer.rounds == 2


async def test_after_a_failure_the_committer_goes_on(
    committer: Committer, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    good, bad = await new_file(disk, "/good"), await new_file(disk, "/bad")
    disk.fail_next_sync("/bad")
    with pytest.raises(DiskFailed):
        await committer.sync([bad])
    await committer.sync([good], ["/"])


async def test_a_missing_folder_or_a_closed_file_fails_those_who_named_it_and_nobody_else(
    committer: Committer, disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Not the committer, on which the whole node depends."""
    good, closed = await new_file(disk, "/good"), await new_file(disk, "/closed")
    closed.close()
    waiters = [Waiter(nursery, committer, target) for target in (good, closed, "/nowhere")]
    await trio.sleep(1)
    assert [type(waiter.answer) for waiter in waiters] == [str, ValueError, FileNotFoundError]
    await committer.sync([good])


# Callers that give up.


async def test_a_file_whose_callers_gave_up_is_left_alone(
    committer: Committer, disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """They may have closed it by now."""
    first, second = await new_file(disk, "/first"), await new_file(disk, "/second")
    busy = Waiter(nursery, committer, first)
    await wait_all_tasks_blocked()
    waiter = Waiter(nursery, committer, second, "/nowhere")
    await wait_all_tasks_blocked()
    waiter.scope.cancel()
    await wait_all_tasks_blocked()
    second.close()
    await trio.sleep(1)
    assert (busy.answer, waiter.answer) == ("durable", "waiting")
    await committer.sync([first])
    assert committer.syncs == disk.counts.syncs == 2


async def test_a_caller_cancelled_at_the_very_start_of_its_round_may_close_its_file(
    committer: Committer, disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    for steps in range(6):
        file = await new_file(disk, f"/{steps}")
        waiter = Waiter(nursery, committer, file)
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        waiter.scope.cancel()
        await trio.lowlevel.checkpoint()
        file.close()
        await trio.sleep(1)
    await committer.sync([await new_file(disk, "/last")])


async def test_a_file_is_synced_while_one_of_its_callers_is_left(
    committer: Committer, disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    file = await new_file(disk, "/a")
    file.write(0, [b"x"])
    Waiter(nursery, committer, file)
    await wait_all_tasks_blocked()
    leaves, stays = Waiter(nursery, committer, file), Waiter(nursery, committer, file)
    await trio.lowlevel.checkpoint()
    leaves.scope.cancel()
    await trio.sleep(1)
    assert (leaves.answer, stays.answer) == ("waiting", "durable")
    assert await contents(disk.crash(), "/a") == b"x"


@pytest.mark.parametrize("is_alone", [True, False], ids=["alone in its round", "beside another"])
@pytest.mark.parametrize("target", ["file", "folder"])
async def test_a_failure_that_nobody_heard_is_told_to_the_next_caller(
    committer: Committer,
    disk: SimulatedDisk,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    target: str,
    is_alone: bool,
) -> None:
    """The system tells of a failed sync once; a second one that succeeds proves nothing (G1)."""
    file, other, third = [await new_file(disk, path) for path in ("/a", "/b", "/c")]
    asked: File | str = file if target == "file" else "/"
    disk.faults.sync_seconds = (1.0, 1.0)
    disk.fail_next_sync("/a" if target == "file" else "/")
    Waiter(nursery, committer, other)
    await trio.sleep(0.5)
    cancelled = Waiter(nursery, committer, asked)
    if not is_alone:
        Waiter(nursery, committer, third)
    await trio.sleep(1)
    cancelled.scope.cancel()
    await trio.sleep(1)
    told, beside = Waiter(nursery, committer, asked), Waiter(nursery, committer, other)
    await trio.sleep(5)
    assert isinstance(told.answer, DiskFailed)
    assert beside.answer == "durable"
    later = Waiter(nursery, committer, asked)
    await trio.sleep(5)
    assert later.answer == "durable"


async def test_whoever_leads_a_round_is_not_called_back_from_it_and_hears_what_came_of_it(
    committer: Committer, disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    file = await new_file(disk, "/a")
    disk.faults.sync_seconds = (1.0, 1.0)
    disk.fail_next_sync("/a")
    leader = Waiter(nursery, committer, file)
    await trio.sleep(0.5)
    leader.scope.cancel()
    await trio.sleep(5)
    assert isinstance(leader.answer, DiskFailed)
    assert leader.answered_at == pytest.approx(1.0, abs=0.01)
    later = Waiter(nursery, committer, file)
    await trio.sleep(5)
    assert later.answer == "durable"


# Stopping.


async def test_whoever_waits_when_the_committer_stops_is_told_so(
    disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """G15: the sync under way goes on to its end; the next never begins, and nobody waits for it for ever."""
    committer = Committer(disk)
    file, other = await new_file(disk, "/a"), await new_file(disk, "/b")
    disk.faults.sync_seconds = (1.0, 1.0)
    async with trio.open_nursery() as running:
        await running.start(committer.run)
        Waiter(nursery, committer, other)
        await trio.sleep(0.5)
        under_way = Waiter(nursery, committer, file)
        await trio.sleep(1)
        gathered = Waiter(nursery, committer, file, other)
        await trio.sleep(0.1)
        running.cancel_scope.cancel()
    await wait_all_tasks_blocked()
    assert under_way.answer == "durable"
    assert isinstance(gathered.answer, Closed)
    with pytest.raises(Closed):
        await committer.sync([file])
    assert committer.syncs == 2


async def test_a_committer_may_stop_when_nobody_waits(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    committer = Committer(disk)
    file = await new_file(disk, "/a")
    async with trio.open_nursery() as running:
        await running.start(committer.run)
        await committer.sync([file])
        running.cancel_scope.cancel()
    with pytest.raises(Closed):
        await committer.sync()


# Order.


class NotedFile:
    """Writes down when it is synced."""

    def __init__(self, path: str, notes: list[str]) -> None:
        self.path = path
        self._notes = notes

    async def sync(self) -> None:
        self._notes.append(self.path)

    def size(self) -> int:
        return 0

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        raise NotImplementedError

    async def read(self, position: int, length: int) -> Buffer:
        raise NotImplementedError

    def truncate(self, size: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


async def order_of_syncs() -> list[str]:
    notes: list[str] = []
    files: list[File] = [NotedFile(str(number), notes) for number in range(50)]
    committer = Committer(SimulatedDisk(Random(0)))
    async with trio.open_nursery() as nursery:
        await nursery.start(committer.run)
        await committer.sync(files)
        nursery.cancel_scope.cancel()
    return notes


def test_the_same_seed_syncs_in_the_same_order_wherever_the_files_lie_in_memory() -> None:
    runs = [run_deterministically(order_of_syncs, seed=seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert sorted(runs[0].value) == sorted(runs[2].value) == sorted(map(str, range(50)))
