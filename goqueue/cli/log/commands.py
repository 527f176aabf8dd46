"""`goqueue log`: shows the files of a broker, running or not, without changing them."""

from contextlib import aclosing

import click

from goqueue.cli.log.reportview import write_report_json, write_report_table
from goqueue.cli.log.rowfields import fields_of
from goqueue.cli.log.rowview import columns_for, is_damage, write_row
from goqueue.cli.program.output import JSON, output_option, write_json, write_titles
from goqueue.cli.program.progress import progress_bar
from goqueue.cli.program.running import Exit, Misuse, end, run
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.verification.dump import FileKind, dump, kind_of
from goqueue.storage.verification.segmentdump import Selection
from goqueue.storage.verification.verify import verify


@click.group()
def log() -> None:
    """Look at log files and journals, without changing them."""


@log.command("verify", short_help="Check all files in DIR, and change nothing.")
@click.argument("directory", metavar="DIR")
@output_option
def verify_command(directory: str, output: str) -> None:
    """Check everything in DIR: a data directory, or the folder of one partition.

    Also works while a broker runs. Exits with 0 when everything promised is there, with 1 on damage. What the next
    start repairs by itself (a torn tail, an index, a seal) is a warning.
    """
    with progress_bar() as bar:
        report = run(lambda: verify(RealDisk(), directory, bar))
    write = write_report_json if output == JSON else write_report_table
    write(report)
    end(Exit.DAMAGE if report.damage() else Exit.SOUND)


@log.command("dump", short_help="Show what is in FILE, one of a data directory.")
@click.argument("file", metavar="FILE")
@click.option("--records", is_flag=True, help="Show each record of a .log file instead of its batches.")
@click.option("--from", "from_offset", type=click.IntRange(min=0), metavar="OFFSET", help="Begin at this offset.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show at most so many rows.")
@output_option
def dump_command(file: str, records: bool, from_offset: int | None, limit: int | None, output: str) -> None:
    """Show what is in FILE: a .log, .index, .timeindex or .seal file, a recovery-point, a delays file or a journal.

    Damage is shown in its place, and the exit code is then 1. JSON comes as one line per row.
    """
    selection = Selection(records, from_offset or 0)
    damaged = run(lambda: _dump(file, selection, limit, output))
    end(Exit.DAMAGE if damaged else Exit.SOUND)


async def _dump(file: str, selection: Selection, limit: int | None, output: str) -> bool:
    """Print the file. Returns whether there was damage."""
    disk = RealDisk()
    kind = await _kind_of(disk, file, selection)
    columns = columns_for(kind, selection.records)
    if output != JSON:
        write_titles(columns)
    damaged = False
    async with aclosing(dump(disk, file, kind, selection, limit)) as rows:
        async for row in rows:
            write_json(fields_of(row)) if output == JSON else write_row(columns, row)
            damaged |= is_damage(row)
    return damaged


async def _kind_of(disk: RealDisk, file: str, selection: Selection) -> FileKind:
    if disk.is_directory(file):
        raise Misuse(f"{file} is a directory; give one of its files, or run `goqueue log verify {file}`")
    if not disk.exists(file):
        raise Misuse(f"there is no file {file}; give one from a partition's folder")
    kind = await kind_of(disk, file)
    if kind is not FileKind.SEGMENT and selection != Selection():
        raise Misuse(f"{file} is a {kind}; --records and --from work on .log files")
    return kind
