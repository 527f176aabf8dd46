"""`goqueue spark`: long jobs that run on Spark, here or on any cluster.

PySpark is imported when one of them runs. If it is missing, the command says so in one sentence.
"""

import click

from goqueue.cli.program.lazy import CommandsInFiles

FILES = {
    "ingest": "spark.ingest",
    "load": "spark.load",
}
"""The file of each command."""


class SparkCommands(CommandsInFiles):
    files = FILES


@click.group(cls=SparkCommands)
def spark() -> None:
    """Move tables to topics, and topics to tables, on Spark."""
