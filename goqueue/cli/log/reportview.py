"""The output of `goqueue log verify`."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click

from goqueue.cli.program.output import Column, printable, write_json, write_table
from goqueue.storage.verification.findings import Finding, Report

SEGMENT_COLUMNS = [
    Column("PARTITION", 9),
    Column("BASE", 4, is_number=True),
    Column("END", 3, is_number=True),
    Column("RECORDS", 7, is_number=True),
    Column("BATCHES", 7, is_number=True),
    Column("BYTES", 5, is_number=True),
    Column("STATE", 5),
]
JOURNAL_COLUMNS = [
    Column("JOURNAL", 7),
    Column("ENTRIES", 7, is_number=True),
    Column("BYTES", 5, is_number=True),
]


def write_report_json(report: Report) -> None:
    document = {
        "path": report.path,
        "sound": not report.damage(),
        "damage": len(report.damage()),
        "warnings": len(report.warnings()),
        "partitions": [_with_findings(asdict(each), each.findings) for each in report.partitions],
        "companions": [_with_findings(asdict(each), each.findings) for each in report.companions],
        "journals": [_with_findings(asdict(each), each.findings) for each in report.journals],
        "others": [finding_fields(finding) for finding in report.others],
    }
    write_json(document, indent=2)


def _with_findings(fields: dict[str, Any], findings: Iterable[Finding]) -> dict[str, Any]:
    return {**fields, "findings": [finding_fields(finding) for finding in findings]}


def finding_fields(finding: Finding) -> dict[str, Any]:
    return {"severity": "damage" if finding.is_damage else "warning", **asdict(finding)}


def write_report_table(report: Report) -> None:
    write_table(SEGMENT_COLUMNS, list(_segment_rows(report)))
    if report.journals:
        click.echo()
        rows = [[_short(report, each.path), str(each.entries), str(each.size)] for each in report.journals]
        write_table(JOURNAL_COLUMNS, rows)
    click.echo()
    for finding in (*report.damage(), *report.warnings()):
        _write_finding(finding)
    click.secho(_summary(report), fg="red" if report.damage() else "green", bold=True)


def _segment_rows(report: Report) -> Iterable[list[str]]:
    for partition in (*report.partitions, *report.companions):
        name = _short(report, partition.path)
        if not partition.segments:
            yield [name, str(partition.log_start), str(partition.end_offset), "0", "0", "0", "empty"]
        for each in partition.segments:
            numbers = (each.base_offset, each.end_offset, each.records, each.batches, each.size)
            yield [name, *map(str, numbers), each.state.value]


def _short(report: Report, path: str) -> str:
    """A partition by topic and number, anything else by its path in the directory."""
    inside = path.removeprefix(report.path).lstrip("/")
    return printable(inside.removeprefix("logs/") or path)


def _write_finding(finding: Finding) -> None:
    style = {"fg": "red", "bold": True} if finding.is_damage else {"fg": "yellow"}
    word = click.style("damage " if finding.is_damage else "warning", **style)
    place = ", ".join([printable(finding.path), *spans(finding)])
    click.echo(f"{word}  {finding.kind.value}: {place}: {finding.text}")


def spans(finding: Finding) -> list[str]:
    """The bytes and offsets of a finding, in words."""
    words = []
    if finding.position is not None:
        words.append(f"bytes {finding.position} to {finding.end_position}")
    if finding.offset is not None:
        last = f"{finding.end_offset - 1}" if finding.end_offset is not None else "the end"
        words.append(f"offsets {finding.offset} to {last}")
    return words


def _summary(report: Report) -> str:
    segments = [segment for partition in report.partitions for segment in partition.segments]
    records, size = sum(each.records for each in segments), sum(each.size for each in segments)
    verdict = f"{_count(len(report.damage()), 'damage')}" if report.damage() else "sound"
    if report.warnings():
        verdict += f", {_count(len(report.warnings()), 'warning')}"
    counted = f"{_count(len(report.partitions), 'partition')}, {_count(len(segments), 'segment')}"
    return f"{verdict}: {counted}, {_count(records, 'record')}, {_count(size, 'byte')} read"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 or thing == "damage" else f"{number} {thing}s"
