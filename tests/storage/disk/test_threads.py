"""Threads for what waits for the device: bounded, kept, given up when idle."""

import threading
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from goqueue.storage.disk.threads import Threads, _Worker


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(2)
    yield threads
    threads.dismiss_all()


OTHERS: set[threading.Thread] = set()
"""Those that were there before the test, of disks that rest for a while."""


@pytest.fixture(autouse=True)
def _note_others() -> None:
    OTHERS.clear()
    OTHERS.update(threading.enumerate())


def names() -> list[str]:
    own = [thread for thread in threading.enumerate() if thread not in OTHERS]
    return [thread.name for thread in own if thread.name == "goqueue-disk"]


async def test_work_is_done_elsewhere_and_its_result_comes_back(threads: Threads) -> None:
    assert await threads.run(threading.get_ident) != threading.get_ident()
    assert await threads.run(lambda: 7) == 7


async def test_what_the_work_raises_is_raised_here_and_the_thread_goes_on(threads: Threads) -> None:
    first = await threads.run(threading.get_ident)
    with pytest.raises(OSError, match="no such device"):
        await threads.run(_fail)
    assert await threads.run(threading.get_ident) == first


def _fail() -> None:
    raise OSError("no such device")


async def test_so_many_work_at_once_and_the_others_wait_for_their_turn(threads: Threads) -> None:
    gate, begun = threading.Event(), [trio.Event() for _ in range(5)]
    token = trio.lowlevel.current_trio_token()
    order: list[int] = []

    def work(number: int) -> None:
        order.append(number)
        token.run_sync_soon(begun[number].set)
        gate.wait(30)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(threads.run, lambda number=number: work(number))
            await trio.testing.wait_all_tasks_blocked()
        await begun[0].wait()
        await begun[1].wait()
        assert sorted(order) == [0, 1]
        gate.set()
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert len(names()) == 2


async def test_one_who_is_cancelled_while_it_waits_for_its_turn_begins_nothing_and_takes_no_place(
    threads: Threads,
) -> None:
    gate = threading.Event()
    done: list[str] = []
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(threads.run, lambda: gate.wait(30))
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.01):
            await threads.run(lambda: done.append("cancelled"))
        gate.set()
    await threads.run(lambda: done.append("later"))
    assert done == ["later"]


async def test_begun_work_is_waited_for_though_its_caller_is_cancelled(threads: Threads) -> None:
    """The descriptor that it uses may be closed by the caller as soon as it returns."""
    gate, begun = threading.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()
    done: list[bool] = []

    def work() -> None:
        token.run_sync_soon(begun.set)
        done.append(gate.wait(30))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.run, work)
        await begun.wait()
        nursery.cancel_scope.cancel()
        token.run_sync_soon(gate.set)
    assert done == [True]


async def test_one_who_is_cancelled_already_begins_nothing(threads: Threads) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await threads.run(_fail)
    assert scope.cancelled_caught


async def test_a_thread_without_work_ends_after_a_while_and_more_work_starts_another() -> None:
    threads = Threads(2, idle_seconds_max=0.001)
    for _ in range(20):
        assert await threads.run(lambda: 7) == 7
        while names():  # each ends by itself
            await trio.lowlevel.checkpoint()


class AskedThreads(Threads):
    """Says when a thread without work has asked whether it may end."""

    def __init__(self) -> None:
        super().__init__(2, idle_seconds_max=0.001)
        self.asked = threading.Event()

    def dismiss(self, worker: _Worker) -> bool:
        may_end = super().dismiss(worker)
        self.asked.set()
        return may_end


async def test_a_thread_ends_also_when_the_event_loop_is_late_to_hear_that_it_has_no_work() -> None:
    threads = AskedThreads()
    token = trio.lowlevel.current_trio_token()
    await threads.run(lambda: token.run_sync_soon(threads.asked.wait, 30))
    with trio.fail_after(30):
        while names():
            await trio.lowlevel.checkpoint()


async def test_threads_are_gone_once_they_are_dismissed_and_come_back_when_needed(threads: Threads) -> None:
    await threads.run(lambda: None)
    threads.dismiss_all()
    assert names() == []
    assert await threads.run(lambda: 7) == 7


def test_they_serve_one_run_after_the_other(threads: Threads) -> None:
    async def once() -> int:
        return await threads.run(lambda: 7)

    assert [trio.run(once), trio.run(once)] == [7, 7]
