"""Executors that are processes of their own can work with goqueue."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_executors_of_a_cluster_can_import_goqueue(spark_cluster: "SparkSession") -> None:
    """They work in folders of their own, not in that of the driver."""

    def asked(_: int) -> tuple[str, str]:
        import goqueue.blocking  # noqa: PLC0415

        return os.getcwd(), goqueue.blocking.__name__

    answers = set(spark_cluster.sparkContext.parallelize(range(8), 8).map(asked).collect())
    assert {name for _, name in answers} == {"goqueue.blocking"}
    assert os.getcwd() not in {folder for folder, _ in answers}
