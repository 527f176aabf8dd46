"""Writes topics to a table of Parquet files."""

from goqueue.spark.ingest.fromregistry import FromRegistry
from goqueue.spark.ingest.job import Ingest, ingest

__all__ = ["FromRegistry", "Ingest", "ingest"]
