"""`goqueue backup` and `goqueue restore`: a copy of everything, and a broker's directory from it."""

from collections.abc import Awaitable

import click

from goqueue.cli.backup.copying import CopyOutcome, back_up
from goqueue.cli.backup.copying import restore as restore_copy
from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import JSON, Column, output_option, printable, readable, write_json, write_table
from goqueue.cli.program.progress import progress_bar
from goqueue.cli.program.running import Exit, Misuse, end, run
from goqueue.errors import DirectoryNotEmpty, GoQueueError, UnknownFormat
from goqueue.storage.backup.backup import CopiedPartition
from goqueue.storage.disk.disk import RealDisk

COLUMNS = [
    Column("TOPIC", 5),
    Column("PARTITION", 9, is_number=True),
    Column("START", 5, is_number=True),
    Column("END", 3, is_number=True),
    Column("RECORDS", 7, is_number=True),
    Column("BYTES", 5, is_number=True),
]


@click.command(short_help="Copy everything of a running broker into DIR.")
@click.argument("directory", metavar="DIR")
@broker_options
@output_option
def backup(directory: str, broker: BrokerAddress, output: str) -> None:
    """Copy all topics and groups of a running broker into DIR, which is empty or missing.

    Everything is there that was confirmed with acks=all before this began, of all partitions as at one moment,
    while writes go on. DIR is a data directory itself: `goqueue log verify` checks it, and `goqueue restore` makes
    another from it. Exits with 1 when the broker could not read something, which is then named and not in it.
    """
    with progress_bar(counts_bytes=False) as bar:
        done = ask(broker, lambda client: _refused(back_up(client, RealDisk(), directory, bar)))
    _show(done, output, f"backup of {readable(done.manifest.taken)} in {printable(directory)}")
    end(Exit.DAMAGE if any(each.lost for each in done.manifest.partitions) else Exit.SOUND)


@click.command(short_help="Make a data directory from a backup.")
@click.argument("source", metavar="BACKUP")
@click.argument("data", metavar="DATA")
@output_option
def restore(source: str, data: str, output: str) -> None:
    """Make DATA, which is empty or missing, a broker's directory as BACKUP has it.

    Every batch is checked on the way. The broker that is started on it has the name, the cluster, the topics,
    the offsets and the groups of the one that was backed up.
    """
    with progress_bar(counts_bytes=False) as bar:
        done = run(lambda: _refused(restore_copy(RealDisk(), source, data, bar)))
    _show(done, output, f"{printable(data)} is as at {readable(done.manifest.taken)}")


async def _refused(work: Awaitable[CopyOutcome]) -> CopyOutcome:
    """A wrong directory is a misuse, and nothing was done; any other error is not."""
    try:
        return await work
    except (DirectoryNotEmpty, UnknownFormat) as error:
        raise Misuse(printable(error.message)) from None
    except GoQueueError as error:
        raise click.ClickException(printable(error.message)) from None


def _show(done: CopyOutcome, output: str, summary: str) -> None:
    if output == JSON:
        write_json({**done.manifest.to_json(), "deleted": done.deleted})
        return
    write_table(COLUMNS, [_row(each) for each in done.manifest.partitions])
    for partition in done.manifest.partitions:
        for lost in partition.lost:
            click.secho(_loss(partition, lost.offset, lost.end_offset), fg="red", bold=True)
    for name in done.deleted:
        click.echo(f"{printable(name)} was deleted meanwhile and is not in it")
    click.echo(summary)


def _row(copied: CopiedPartition) -> list[str]:
    numbers = (copied.partition, copied.start, copied.end, copied.records, copied.bytes)
    return [printable(copied.topic), *map(str, numbers)]


def _loss(partition: CopiedPartition, offset: int, end_offset: int) -> str:
    return (
        f"damage: offsets {offset} to {end_offset - 1} of {printable(partition.topic)}/{partition.partition} "
        "could not be read; run `goqueue log verify` on the broker's directory"
    )
