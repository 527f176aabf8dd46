"""`goqueue spark`: long pieces of work that run on Spark, here or on any cluster.

PySpark is imported when one of them runs. Until then it may be missing: it is told in one sentence.
"""

import click

from goqueue.cli.program.lazy import CommandsInFiles

FILES = {
    "ingest": "spark.ingest",
    "load": "spark.load",
}
"""Which file has which command."""


class SparkCommands(CommandsInFiles):
    files = FILES


@click.group(cls=SparkCommands)
def spark() -> None:
    """Move tables to topics, and topics to tables, on Spark."""
