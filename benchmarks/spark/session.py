"""A session of Spark on two cores, and how much memory its processes hold."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import goqueue.spark
from goqueue.spark.checks import check_machine

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
}
LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Session:
    spark: SparkSession
    pid: int
    """Of Java: driver and executor in one."""

    def heap_mib(self) -> float:
        """What Java holds once it has collected its garbage."""
        bean: Any = self.spark.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()  # type: ignore[union-attr]
        bean.gc()
        return float(bean.getHeapMemoryUsage().getUsed() / 1024**2)


@contextmanager
def local_session(folder: Path) -> Iterator[Session]:
    check_machine()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.Builder().master("local[2]").appName("goqueue benchmarks")
    for name, value in {**SETTINGS, "spark.local.dir": str(folder / "local")}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        goqueue.spark.register(spark)
        jvm: Any = spark.sparkContext._jvm
        yield Session(spark, int(jvm.java.lang.ProcessHandle.current().pid()))
    finally:
        spark.stop()


class Watch:
    """The most that one Python process of Spark has held, looked at many times a second."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.peak_mib = 0.0

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.peak_mib = max(self.peak_mib, max(map(resident_mib, _below(self._parent)), default=0.0))


def _below(parent: int) -> Iterator[int]:
    for child in _children(parent):
        yield child
        yield from _below(child)


def _children(pid: int) -> list[int]:
    """Of every thread of it: Java forks in many."""
    found = list[int]()
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it has ended meanwhile
    return found


def resident_mib(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024**2
    except OSError:
        return 0.0
