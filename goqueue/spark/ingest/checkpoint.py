"""Reads Spark's checkpoint of a streaming query: the query's id, and its position."""

import json
from typing import TYPE_CHECKING

from goqueue.spark.files import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class QueryCheckpoint:
    def __init__(self, spark: "SparkSession", path: str) -> None:
        self._files = Files(spark, path)
        self.path = self._files.whole(path)
        self.spark_folder = self.path

    def query_id(self) -> str | None:
        """The id outlives restarts; None if there is no query yet."""
        metadata = f"{self.path}/metadata"
        return str(json.loads(self._files.read_text(metadata))["id"]) if self._files.exists(metadata) else None

    def reached(self) -> dict[str, dict[str, int]]:
        """The next offset to read, by topic and partition, after the last micro-batch that is done."""
        done = [int(each.name) for each in self._files.in_folder(f"{self.path}/commits") if each.name.isdigit()]
        if not done:
            return {}
        *_, offsets = self._files.read_text(f"{self.path}/offsets/{max(done)}").splitlines()
        return {
            topic: {number: int(each["offset"]) for number, each in said["partitions"].items()}
            for topic, said in json.loads(offsets).items()
        }
