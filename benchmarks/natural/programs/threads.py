"""Threads that begin together."""

import threading
from collections.abc import Callable, Sequence

from benchmarks.natural.meter import Meter
from benchmarks.peers.workload import check_count


def run_in_threads(works: Sequence[Callable[[], None]], meter: Meter) -> None:
    """Measures from the moment in which all threads are there until the last one has ended."""
    gate, done = threading.Barrier(len(works) + 1), list[None]()

    def run(work: Callable[[], None]) -> None:
        gate.wait()
        work()
        done.append(None)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    with meter.measuring():
        gate.wait()
        for thread in threads:
            thread.join()
    check_count(len(done), len(works), "threads that ended well")
