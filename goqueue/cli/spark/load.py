"""`goqueue spark load`: publishes the rows of files."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import JSON, Column, output_option, printable, write_json, write_table
from goqueue.cli.program.progress import progress_bar
from goqueue.cli.program.running import Misuse
from goqueue.cli.spark.session import spark_options, spark_session
from goqueue.cli.spark.signals import Interrupted, Signals
from goqueue.client.client import Client
from goqueue.errors import UnknownTopic

if TYPE_CHECKING:
    from goqueue.spark.load.job import Loaded

FORMATS = ["parquet", "csv", "json"]
PARTITIONS = 3
COLUMNS = [
    Column("TOPIC", 5),
    Column("FILES", 5, is_number=True),
    Column("ROWS", 4, is_number=True),
    Column("BYTES", 5, is_number=True),
    Column("SECONDS", 7, is_number=True),
    Column("LOADED BEFORE", 13, is_number=True),
]


@click.command()
@click.argument("path")
@click.option("--topic", required=True, help="Where the rows go.")
@click.option("--format", "format_name", type=click.Choice(FORMATS), help="Without it, by the names of the files.")
@click.option("--key", metavar="COLUMN", help="The column with the key.")
@click.option("--value", metavar="COLUMN", help="The column with the value; without it, the whole row as JSON.")
@click.option("--priority", metavar="COLUMN", help="The column with the priority: 0 to 4, or its name.")
@click.option("--schema", metavar="DDL", help='The columns, as "id BIGINT, name STRING".')
@click.option("--option", "pairs", multiple=True, metavar="KEY=VALUE", help="For Spark's reader, as sep=; for CSV.")
@click.option("--checkpoint", metavar="DIR", help="Where is kept what is loaded; with it a later run goes on.")
@click.option(
    "--batch-mib",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    help="Files of so much are loaded and entered in the checkpoint together.",
)
@click.option("--create-topic", is_flag=True, help="Make the topic if it is missing.")
@click.option(
    "--partitions", type=click.IntRange(min=1), help=f"Of a topic that is made; {PARTITIONS} if not told."
)
@spark_options
@broker_options
@output_option
def load(
    *,
    path: str,
    topic: str,
    format_name: str | None,
    key: str | None,
    value: str | None,
    priority: str | None,
    schema: str | None,
    pairs: Sequence[str],
    checkpoint: str | None,
    batch_mib: int,
    create_topic: bool,
    partitions: int | None,
    master: str | None,
    log_level: str,
    broker: BrokerAddress,
    output: str,
) -> None:
    """Publish the rows of Parquet, CSV or JSON files, on Spark.

    PATH is a file, a directory or a pattern, wherever Spark can read it. Each row is published at least once. With
    --checkpoint a run that was killed goes on where it ended: the files that were under way are loaded again, those
    before are not, and new files come to them.

    Exits with 0 only when all is loaded; with 130 when Ctrl-C and with 143 when SIGTERM came before.
    """
    if partitions is not None and not create_topic:
        raise Misuse("--partitions is for a topic that is made; give --create-topic too")
    reading = _reading_options(pairs)
    ask(broker, lambda client: _find_topic(client, topic, partitions or PARTITIONS, may_create=create_topic))
    begun = time.monotonic()
    try:
        with spark_session(f"goqueue load {topic}", master, log_level, Signals()) as spark, progress_bar() as bar:
            from goqueue.spark.load import job as loading  # noqa: PLC0415 (it imports PySpark, which may be missing)

            job = loading.Job(
                broker.url,
                path,
                topic,
                format=format_name,
                key=key,
                value=value,
                priority=priority,
                schema=schema,
                reading=reading,
                checkpoint=checkpoint,
                group_bytes=batch_mib << 20,
            )
            done = loading.load(spark, job, bar.begin, bar.advance)
    except Interrupted as interrupted:
        raise interrupted.telling(_how_to_go_on(checkpoint)) from None
    _show(done, topic, time.monotonic() - begun, output)


def _how_to_go_on(checkpoint: str | None) -> str:
    if checkpoint is None:
        return (
            "before all was loaded: a part of the rows may be published, and the same command begins with the "
            "first file; with --checkpoint it goes on"
        )
    return (
        f"before all was loaded: files that are entered in {printable(checkpoint)} stay loaded, and the same "
        "command goes on with the others"
    )


async def _find_topic(client: Client, name: str, partitions: int, *, may_create: bool) -> None:
    """Before Spark is started, which takes long."""
    try:
        await client.topic(name)
    except UnknownTopic as error:
        if not may_create:
            error.message += "; --create-topic makes it"
            raise
        await client.create_topic(name, partitions)


def _reading_options(pairs: Sequence[str]) -> dict[str, str]:
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise Misuse(f"{pair!r} is not an option like sep=;")
        options[key] = value
    return options


def _show(done: "Loaded", topic: str, seconds: float, output: str) -> None:
    if output == JSON:
        write_json({"topic": topic, **asdict(done), "seconds": round(seconds, 3)})
        return
    counts = (done.files, done.rows, done.bytes)
    cells = [printable(topic), *map(str, counts), f"{seconds:.1f}", str(done.files_before)]
    write_table(COLUMNS, [cells])
