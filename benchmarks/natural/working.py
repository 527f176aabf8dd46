"""A run of a worker: its jobs are there before it starts, and it is started as its users start it."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from benchmarks.children import end
from benchmarks.natural.notes import sample_of_notes, wait_for_notes
from benchmarks.natural.programs.handling import check_counted
from benchmarks.natural.task import Sample, Task
from benchmarks.peers.workload import Wrong, check_count

ACKED_SECONDS_MAX = 10.0
LOG_SHOWN_MAX = 2_000


class Jobs(Protocol):
    """A module that has a worker."""

    def enqueue_jobs(self, task: Task) -> None: ...
    def worker_command(self, task: Task) -> list[str]: ...
    def jobs_left(self, task: Task) -> int:
        """Jobs that are not acked."""
        ...

    def forget_jobs(self, task: Task) -> None: ...


def work(jobs: Jobs, task: Task) -> Sample:
    jobs.enqueue_jobs(task)
    with _worker(jobs.worker_command(task), task) as worker:
        wait_for_notes(task, lambda: worker.poll() is None)
        _wait_until_acked(jobs, task)
        sample = sample_of_notes(task)
    check_count(jobs.jobs_left(task), 0, "left over")
    check_counted(task)
    jobs.forget_jobs(task)
    return sample


@contextmanager
def _worker(command: list[str], task: Task) -> Iterator["subprocess.Popen[bytes]"]:
    log = Path(task.notes).with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=task.environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its helpers end with it
        )
    try:
        yield process
    except Wrong as error:
        raise Wrong(f"{error}; the worker said: {log.read_text(errors='replace')[-LOG_SHOWN_MAX:]}") from error
    finally:
        end(process)


def _wait_until_acked(jobs: Jobs, task: Task) -> None:
    """The last ones are handled, and their acks may be under way."""
    deadline = time.monotonic() + ACKED_SECONDS_MAX
    while jobs.jobs_left(task) and time.monotonic() < deadline:
        time.sleep(0.02)
    check_count(task.count - jobs.jobs_left(task), task.count, "acked")
