"""Writes topics to a table of Parquet files."""

from goqueue.spark.ingest.job import Ingest, ingest

__all__ = ["Ingest", "ingest"]
