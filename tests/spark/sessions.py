"""The sessions that tests of Spark use: one at a time, for a process can have no second.

A session is started for the first test that asks for its master and ended when a test asks for another, or when all
are done. Tests of one master run together (conftest.py), so each is started once.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[2]"
CLUSTER = "local-cluster[2,1,1024]"
"""Two executors that are processes of their own, each with a core and a gigabyte."""


def prepare_environment() -> None:
    """What `./dev` exports, for those who run pytest by hand; Spark looks at it when its JVM starts."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


class Sessions:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spark: SparkSession | None = None
        self._master = ""

    def of(self, master: str) -> "SparkSession":
        if self._spark is None or self._master != master:
            self.stop()
            self._spark, self._master = self._start(master), master
        return self._spark

    def _start(self, master: str) -> "SparkSession":
        from pyspark.sql import SparkSession  # noqa: PLC0415 (whoever runs other tests does not wait for it)

        prepare_environment()
        builder = SparkSession.Builder().master(master).appName("goqueue tests")
        for name, value in _settings(self._folder).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        return spark

    def stop(self) -> None:
        if self._spark is None:
            return
        application = self._spark.sparkContext.applicationId
        self._spark.stop()
        self._spark = None
        _remove_work(application)


def _settings(folder: Path) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.log.level": "ERROR",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both executors are there before a task is
    }


def _remove_work(application: str) -> None:
    """What the executors of a local cluster leave, in a folder beside Spark's jars."""
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415

    work = Path(_find_spark_home()) / "work"
    shutil.rmtree(work / application, ignore_errors=True)
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()
