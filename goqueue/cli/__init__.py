"""The command line: one file per group of commands."""

import click

from goqueue import __version__
from goqueue.cli.backup import backup, restore
from goqueue.cli.bench import bench
from goqueue.cli.config import config
from goqueue.cli.consume import consume
from goqueue.cli.dlq import dlq
from goqueue.cli.group import group
from goqueue.cli.log import log
from goqueue.cli.produce import produce
from goqueue.cli.running import Program
from goqueue.cli.serve import serve
from goqueue.cli.stats import stats
from goqueue.cli.topic import topic


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="goqueue")
def main() -> None:
    """A durable message broker."""


for command in (backup, bench, config, consume, dlq, group, log, produce, restore, serve, stats, topic):
    main.add_command(command)
