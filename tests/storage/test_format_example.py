"""docs/storage-format.md is true: its diagrams are the source's, and its example is what the broker writes."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from crc32c import crc32c

from goqueue.core.records.batch import (
    ENVELOPE_SIZE,
    Envelope,
    Producer,
    accept,
    body_is_sound,
    envelope_for,
    parse_envelope,
    seal_envelope,
)
from goqueue.core.records.record import decode_records
from goqueue.types import Priority

PAGE = (Path(__file__).parents[2] / "docs/storage-format.md").read_text()
Table = dict[str, str]


def example() -> bytes:
    block = re.search(r"```hex\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    return b"".join(bytes.fromhex(line[6:]) for line in block[1].splitlines())


def rows() -> list[tuple[int, int, str, str]]:
    """Every row of the example's tables: where, how long, which field, what."""
    found = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)
    return [(int(at), int(size), field, value) for at, size, field, value in found]


def tables() -> tuple[Table, Table, Table]:
    """The envelope and the two records, each by the names of its fields."""
    begins = [number for number, (_, _, field, _) in enumerate(rows()) if field == "magic"]
    ends = [*begins[1:], len(rows())]
    first, second, third = (
        {field: value for _, _, field, value in rows()[begin:end]} for begin, end in zip(begins, ends, strict=True)
    )
    return first, second, third


def test_the_tables_describe_every_byte_of_the_example_once() -> None:
    position = 0
    for at, size, _, _ in rows():
        assert at == position
        position += size
    assert position == len(example()) == 191


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]} {row[2]}")
def test_each_row_says_what_the_bytes_say(row: tuple[int, int, str, str]) -> None:
    at, size, field, value = row
    raw = example()[at : at + size]
    if value.startswith('"'):
        assert raw == value.strip('"').encode()
    elif field != "headers":
        assert int.from_bytes(raw, "big") == int(value, 0)


def test_the_engine_reads_the_envelope_as_the_page_does() -> None:
    envelope = parse_envelope(example())
    assert envelope is not None
    table, _, _ = tables()
    assert envelope._asdict() == {field: int(table[field], 0) for field in Envelope._fields}
    assert body_is_sound(envelope, example()[ENVELOPE_SIZE:])


def test_the_engine_reads_the_records_as_the_page_does() -> None:
    base = int(tables()[0]["base_offset"])
    records = list(decode_records(example()[ENVELOPE_SIZE:], 2, base))
    for record, table in zip(records, tables()[1:], strict=True):
        assert record.offset == base + int(table["relative_offset"])
        assert record.timestamp == int(table["timestamp"])
        assert record.priority == int(table["priority"])
        assert record.flags == int(table["flags"])
        assert record.value == table["value"].strip('"').encode()
        assert record.key == (table["key"].strip('"').encode() if "key" in table else None)
    assert tables()[1]["headers"] == '{"trace": 0x0a0b}'
    assert [record.headers for record in records] == [{"trace": b"\x0a\x0b"}, {}]
    assert [record.priority for record in records] == [Priority.HIGH, Priority.NORMAL]


def test_the_engine_writes_the_example() -> None:
    body = example()[ENVELOPE_SIZE:]
    batch = accept(body, 2, producer=Producer(7, 1, 40))
    envelope = envelope_for(batch, 1000, leader_epoch=3, append_time=1_700_000_000_001_000, durable_offset=998)
    assert seal_envelope(envelope) + body == example()


def test_the_checksums_cover_what_the_page_says() -> None:
    data = example()
    assert crc32c(data[8:96], crc32c(data[:4])) == int(tables()[0]["envelope_crc"], 0)
    assert crc32c(data[96:]) == int(tables()[0]["body_crc"], 0)
    assert crc32c(data[104:154]) == int(tables()[1]["crc"], 0)


def diagrams() -> list[tuple[str, str]]:
    return re.findall(r"\(\.\./(goqueue/[\w/]+)\.py\)[^\n]*\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("module", "diagram"), diagrams(), ids=[module for module, _ in diagrams()])
def test_a_diagram_is_the_one_that_stands_where_it_is_parsed(module: str, diagram: str) -> None:
    docstring = import_module(module.replace("/", ".")).__doc__
    assert docstring is not None
    assert diagram in docstring


def test_every_format_has_its_diagram() -> None:
    names = [module.split("/", 2)[2] for module, _ in diagrams()]
    assert names == [
        "records/record",
        "records/batch",
        "log/summary",
        "log/recoverypoint",
        "journals/file",
        "delays/entries",
    ]
