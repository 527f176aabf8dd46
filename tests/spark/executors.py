"""Executors that are killed at a moment that a test chooses: when they have a certain file open.

The executors of a local cluster are children of the driver's Java. What a process has open is seen in /proc, so
that the one that is killed is one that is in the middle of its task.
"""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.01

Moment = Callable[[str], bool]
"""Of the path of an open file: whether who has it open is to be killed now."""


@contextmanager
def killing(spark: "SparkSession", *moments: Moment) -> Iterator["Future[list[str]]"]:
    """For a block: one executor dies at each of these moments, one after the other. The result are the files that
    they had open; fewer than moments, when the block has ended before.
    """
    jvm: Any = spark.sparkContext._jvm
    driver, is_over = int(jvm.java.lang.ProcessHandle.current().pid()), Event()
    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(lambda: [file for each in moments for file in _kill_one(driver, each, is_over)])
        try:
            yield killed
        finally:
            is_over.set()


def _kill_one(driver: int, moment: Moment, is_over: Event) -> list[str]:
    while not is_over.wait(LOOK_SECONDS):
        for process, file in _open_files(driver):
            if moment(file):
                os.kill(process, signal.SIGKILL)
                return [file]
    return []


def _open_files(driver: int) -> Iterator[tuple[int, str]]:
    """Of all executors, with the process that has it open. They come and go meanwhile."""
    for process in filter(_is_executor, _children(driver)):
        with suppress(OSError):
            for descriptor in os.listdir(f"/proc/{process}/fd"):
                with suppress(OSError):
                    yield process, os.readlink(f"/proc/{process}/fd/{descriptor}")


def _is_executor(process: int) -> bool:
    """A program that the driver is about to start, such as chmod, has the driver's files for a moment."""
    with suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as command:
        return b"CoarseGrainedExecutorBackend" in command.read()
    return False


def _children(parent: int) -> Iterator[int]:
    """Each thread has its own."""
    for thread in os.listdir(f"/proc/{parent}/task"):
        with suppress(OSError), open(f"/proc/{parent}/task/{thread}/children") as children:
            yield from map(int, children.read().split())
