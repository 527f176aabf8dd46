"""goqueue in Spark: topics are tables, and tables become topics.

    import goqueue.spark
    goqueue.spark.register(spark)
    orders = spark.read.format("goqueue").option("url", "ws://127.0.0.1:7710").option("subscribe", "orders").load()

Import it before the session is built: Spark then chooses the Python of its workers, and takes the `python3` on
their path unless PYSPARK_PYTHON is set, which the import does.

Nothing here is imported with goqueue itself, and PySpark only where it is needed: if it is missing, one sentence
says so.
"""

from typing import TYPE_CHECKING

from goqueue.spark.checks import check_java_of, check_packages, check_workers, use_this_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

use_this_python()


def register(spark: "SparkSession") -> None:
    """Register the format `goqueue` with this session, after checks of its requirements, here and at the workers.

    `SparkNotReady` names what is missing and the cure. One task of a few milliseconds runs to ask a worker.
    """
    check_packages()
    check_java_of(spark)
    check_workers(spark)
    from goqueue.spark.format.datasource import GoQueueDataSource  # noqa: PLC0415 (its base class is PySpark's)

    spark.dataSource.register(GoQueueDataSource)
