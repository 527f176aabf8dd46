"""`goqueue spark ingest`: writes topics to a table."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from goqueue.cli.program.output import JSON, Column, output_option, printable, write_json, write_table
from goqueue.cli.program.progress import Bar, progress_bar
from goqueue.cli.program.running import Exit, Misuse, end
from goqueue.cli.spark.schemachoice import RegistryChoice, SchemaChoice
from goqueue.cli.spark.session import spark_options, spark_session
from goqueue.cli.spark.signals import Interrupted, Signals
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from goqueue.spark.ingest.job import Ingest, IngestSummary

COLUMNS = [Column("TOPIC", 5), Column("PARTITION", 9, is_number=True), Column("NEXT OFFSET", 11, is_number=True)]
REASONS = [Column("MESSAGES", 8, is_number=True), Column("WHY IN QUARANTINE", 17)]
PLACES = ("earliest", "latest")
SCHEMA_BYTES_MAX = 16 * 1024 * 1024


@click.command(short_help="Write topics to a table of Parquet files.")
@click.option("--topic", "topics", required=True, multiple=True, help="Which to read; may be given several times.")
@click.option("--to", "path", required=True, metavar="PATH", help="The table's folder, wherever Spark can write.")
@click.option(
    "--schema",
    type=SchemaChoice(),
    metavar="FILE|registry[:SUBJECT[:VERSION]]",
    help="A JSON Schema: its properties become typed columns. A file's, or a version's of the broker's registry: "
    "by default the newest of TOPIC-value. Without it rows are messages as they are.",
)
@click.option(
    "--checkpoint", metavar="DIR", help="Where the ingest keeps how far it is.  [default: PATH_checkpoint]"
)
@click.option(
    "--once/--follow", "is_once", default=True, show_default=True, help="End with what is there now, or go on."
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="With --follow: from one micro-batch to the next.",
)
@click.option(
    "--max-offsets-per-trigger",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Messages of one micro-batch.",
)
@click.option(
    "--from",
    "starting",
    metavar="WHERE",
    help="Where a new table begins: earliest, latest, a time like 2026-11-17T08:00:00Z, or JSON of offsets.  "
    "[default: earliest]",
)
@click.option(
    "--merge-above",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    metavar="FILES",
    help="Merge a day's small files when there are more than so many.",
)
@click.option("--skip-lost", is_flag=True, help="Go on where messages are gone before they were read.")
@click.option("--group", metavar="NAME", help="Tell the broker the progress under this group, for its lag.")
@click.option(
    "--url",
    default="ws://127.0.0.1:7710",
    show_default=True,
    envvar="GOQUEUE_URL",
    show_envvar=True,
    help="The broker.",
)
@click.option("--fail-on-quarantine", is_flag=True, help="Exit with 1 when messages did not fit.")
@spark_options
@output_option
def ingest(*, master: str | None, log_level: str, output: str, fail_on_quarantine: bool, **given: Any) -> None:
    """Write the messages of topics to a table of Parquet files, each exactly once, also when this is killed and
    started again.

    Messages that do not fit the schema go to PATH_quarantine, with the reason. Exits with 0 when all is written, or
    when --follow was ended by Ctrl-C or SIGTERM; with 1 when something failed (what was written stays, and the next
    run goes on), with 2 when it was not given what it needs, with 130 when Ctrl-C and with 143 when SIGTERM came
    before all was written.
    """
    given |= {"schema": _schema(given["schema"], given["topics"]), "starting": _starting(given["starting"])}
    watching, is_endless = _Watching(signals := Signals()), not given["is_once"]
    try:
        with spark_session("goqueue ingest", master, log_level, signals) as spark, _speaking_of_options():
            done = _run(spark, watching, _work(**given))
    except Interrupted as interrupted:
        if not is_endless:
            raise interrupted.telling(watching.how_to_go_on) from None
        done = watching.so_far or _nothing_done(given)  # --follow only ends by a signal, so this is a success
    _show(done, output)
    end(Exit.DAMAGE if fail_on_quarantine and done.quarantined else Exit.SOUND)


def _run(spark: "SparkSession", watching: "_Watching", work: "Ingest") -> "IngestSummary":
    from goqueue.spark.ingest.job import ingest as run  # noqa: PLC0415 (PySpark may be missing)

    with progress_bar(counts_bytes=False) as watching.bar:
        return run(spark, work, watching)


def _nothing_done(given: Mapping[str, Any]) -> "IngestSummary":
    """The summary of a run that ended before it began."""
    from goqueue.spark.ingest.job import IngestSummary  # noqa: PLC0415
    from goqueue.spark.ingest.tablefolder import CHECKPOINT, QUARANTINE  # noqa: PLC0415

    path = given["path"].rstrip("/")
    return IngestSummary(path, path + QUARANTINE, given["checkpoint"] or path + CHECKPOINT)


@contextmanager
def _speaking_of_options() -> Iterator[None]:
    """Errors name this command's options instead of Spark's."""
    try:
        yield
    except GoQueueError as error:
        error.message = error.message.replace("startingOffsets", "--from")
        raise


def _work(*, is_once: bool, interval: float, **given: Any) -> "Ingest":
    from goqueue.spark.ingest import FromRegistry, Ingest  # noqa: PLC0415

    schema = given["schema"]
    return Ingest(
        url=given["url"],
        topics=tuple(dict.fromkeys(given["topics"])),
        path=given["path"],
        schema=FromRegistry(*schema) if isinstance(schema, RegistryChoice) else schema,
        checkpoint=given["checkpoint"],
        max_offsets_per_trigger=given["max_offsets_per_trigger"],
        group=given["group"],
        starting=given["starting"],
        fail_on_data_loss=not given["skip_lost"],
        follow_seconds=None if is_once else interval,
        files_max=given["merge_above"],
    )


def _schema(file: Any, topics: tuple[str, ...]) -> Any:
    if isinstance(file, RegistryChoice) and file.subject is None and len(set(topics)) > 1:
        raise Misuse("with several topics --schema registry needs a subject: registry:SUBJECT")
    if file is None or isinstance(file, RegistryChoice):
        return file
    try:
        text = file.read(SCHEMA_BYTES_MAX + 1)
        if len(text) > SCHEMA_BYTES_MAX:
            raise Misuse(f"{printable(file.name)} is larger than {SCHEMA_BYTES_MAX:,} bytes")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Misuse(f"{printable(file.name)} is not JSON: {error}") from None


def _starting(given: str | None) -> dict[str, str]:
    """A time begins with a digit, JSON with a brace."""
    if given is None:
        return {}
    if given in PLACES or given.startswith("{"):
        return {"startingOffsets": given}
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise Misuse(
            f"--from {printable(given)} is none of earliest, latest, a time like 2026-11-17T08:00:00Z, and offsets "
            'like {"orders": {"0": 42}}'
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return {"startingTimestamp": str(int(aware.timestamp() * 1_000))}


class _Watching:
    """Moves the bar, and looks for signals. The bar does not count on messages that are published meanwhile, nor on
    offsets without a message."""

    def __init__(self, signals: Signals) -> None:
        self.bar: Bar | None = None
        self.so_far: IngestSummary | None = None
        """The summary of the run, which goes on counting in it."""
        self._signals = signals
        self._shown = 0

    def __call__(self, so_far: "IngestSummary") -> None:
        self.so_far = so_far
        self._signals.look()
        if self.bar is not None:
            self.bar.begin(max(so_far.expected, so_far.messages))
            self.bar.advance(so_far.messages - self._shown)
        self._shown = so_far.messages

    @property
    def how_to_go_on(self) -> str:
        messages = self.so_far.messages if self.so_far else 0
        return (
            f"before all was written: {messages:,} messages are written by this run and stay; the same command "
            "goes on with the others"
        )


def _show(done: "IngestSummary", output: str) -> None:
    if output == JSON:
        write_json(done.to_json())
        return
    offsets = [
        [printable(topic), number, str(offset)]
        for topic, partitions in done.offsets.items()
        for number, offset in partitions.items()
    ]
    write_table(COLUMNS, offsets)
    if done.quarantined:
        click.echo()
        write_table(REASONS, [[str(count), printable(why)] for why, count in done.quarantined.most_common()])
    click.echo()
    click.echo(_sentence(done))


def _sentence(done: "IngestSummary") -> str:
    said = f"{done.rows:,} rows in {printable(done.path)}"
    if done.quarantined:
        said += f", {done.quarantined.total():,} messages in {printable(done.quarantine)}"
    if done.schema is not None:
        said += f", with version {done.schema['version']} of {printable(done.schema['subject'])}"
    return f"{said}: {done.files} files, {done.seconds:.1f} s, {done.messages_per_second:,.0f} messages a second"
