"""Threads for work that waits for the device.

Trio's own way to a thread copies a context, names the thread and takes a token of a limiter for each call, which
costs a publish with acks=all more than the sync that it waits for (0.19 to 0.30 ms to a thread and back, 0.09 ms
here). So the threads are kept, each with a queue of its own, and the event loop does all counting: a thread only
works, returns the result, and waits for more. A thread that is idle for a while ends.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import outcome
import trio

IDLE_SECONDS_MAX = 10.0

Result = TypeVar("Result")


class _Job:
    __slots__ = ("task", "token", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.task = trio.lowlevel.current_task()
        self.token = trio.lowlevel.current_trio_token()


class _Worker:
    def __init__(self, threads: "Threads") -> None:
        self._threads = threads
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="goqueue-disk", daemon=True)
        self._thread.start()

    def give(self, job: _Job) -> None:
        self._jobs.put(job)

    def end(self) -> None:
        """End the thread, which must be idle, and wait for it."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            result = outcome.capture(job.work)
            with suppress(trio.RunFinishedError):  # only a run that was torn down does not wait for its threads
                job.token.run_sync_soon(self._threads.finish, self, job.task, result)
            del job, result

    def _next(self) -> _Job | None:
        """None when no job came for long. A worker that is not among the idle ones waits on: a job is coming."""
        while True:
            with suppress(Empty):
                return self._jobs.get(timeout=self._threads.idle_seconds_max)
            if self._threads.dismiss(self):
                return None


class Threads:
    """At most `most` threads work at once; more work waits for its turn, in order."""

    def __init__(self, most: int, idle_seconds_max: float = IDLE_SECONDS_MAX) -> None:
        self.idle_seconds_max = idle_seconds_max
        self._most = most
        self._busy = 0
        self._idle: list[_Worker] = []
        self._idle_lock = threading.Lock()
        self._waiting = trio.lowlevel.ParkingLot()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Returns or raises what `work` does. Once begun, it is waited for, cancelled or not."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._busy == self._most:
            await self._waiting.park()  # a job that ends leaves its thread to the first that waits
        else:
            self._busy += 1
        job = _Job(work)
        try:
            self._worker().give(job)
        except BaseException:
            self._leave_place()
            raise
        return await trio.lowlevel.wait_task_rescheduled(_never)  # type: ignore[no-any-return]

    def _worker(self) -> _Worker:
        with self._idle_lock:
            return self._idle.pop() if self._idle else _Worker(self)

    def finish(self, worker: _Worker, task: trio.lowlevel.Task, result: "outcome.Outcome[Any]") -> None:
        with self._idle_lock:
            self._idle.append(worker)
        self._leave_place()
        trio.lowlevel.reschedule(task, result)

    def _leave_place(self) -> None:
        if not self._waiting.unpark():
            self._busy -= 1

    def dismiss_all(self) -> None:
        """End all idle threads now. More work starts others."""
        with self._idle_lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def dismiss(self, worker: _Worker) -> bool:
        """Whether it may end: it is still idle, as no job has just taken it."""
        with self._idle_lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return True
        return False


def _never(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
