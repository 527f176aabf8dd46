"""What a handler leaves behind: one record in a file for each message that it handled.

A write to a file that is open for appending costs about two microseconds, the same for every library, and no
message is lost or counted twice whatever becomes of the worker. The clock is the machine's: one for all processes.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from struct import Struct

from benchmarks.natural.meter import cpu_seconds
from benchmarks.natural.task import Sample, Task
from benchmarks.peers.workload import Wrong, check_count

RECORD = Struct("<Qddd")
"""The number of the message, the time, and the processor times of the worker and of the server until then."""
SECONDS_MAX = 120.0
LOOK_SECONDS = 0.05
EXTRA_SECONDS = 0.3
"""The time for a message that comes a second time."""


def noting(task: Task) -> Callable[[int], None]:
    """A function that notes one message."""
    file = os.open(task.notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    now, own = time.perf_counter, time.process_time

    def note(number: int) -> None:
        os.write(file, RECORD.pack(number, now(), own(), cpu_seconds(task.pids)))

    return note


def wait_for_notes(task: Task, is_alive: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while _count(task) < task.count:
        if time.monotonic() > deadline or not is_alive():
            raise Wrong(f"handled: {_count(task):,} of {task.count:,}, and no more came")
        time.sleep(LOOK_SECONDS)


def _count(task: Task) -> int:
    path = Path(task.notes)
    return path.stat().st_size // RECORD.size if path.exists() else 0


def sample_of_notes(task: Task, settle_seconds: float = EXTRA_SECONDS) -> Sample:
    """From the first message that was handled to the last one. Each must have been handled once."""
    time.sleep(settle_seconds)
    records = sorted(RECORD.iter_unpack(Path(task.notes).read_bytes()), key=lambda record: record[1])
    handled = Counter(number for number, *_ in records)
    check_count(sum(handled[number] == 1 for number in range(task.count)), task.count, "handled once")
    check_count(len(records), task.count, "handled")
    (_, begin, here, there), (_, end, here_at_end, there_at_end) = records[0], records[-1]
    scale = 1e6 / (task.count - 1)
    broker = (there_at_end - there) * scale if task.pids else None
    return Sample(task.count - 1, end - begin, (here_at_end - here) * scale, broker)
