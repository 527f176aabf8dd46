"""`goqueue log dump`: what it prints, and how it ends."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgpack
import pytest
import trio

from goqueue.core.delays.pending import DelayChange, DelayState
from goqueue.core.log.producers import ProducerStates, WrittenBatch
from goqueue.storage.delays.entries import encode_entries, encode_header
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.log.producersnapshot import encode_producers
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.ledgers import write_log
from tests.cli.directories import BATCHES, NOW, RECORDS_PER_BATCH, everything_in, flip, goqueue, segments


def lines_of(*arguments: str | Path) -> list[dict[str, Any]]:
    """The rows of a dump that meets no damage."""
    result = goqueue("log", "dump", *arguments, "-o", "json")
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_batches_are_lines_of_json(data: Path) -> None:
    rows = [row for path in segments(data) for row in lines_of(path)]
    assert len(rows) == BATCHES
    second = rows[1]
    assert {
        name: second[name] for name in ("type", "base_offset", "end_offset", "record_count", "leader_epoch")
    } == {
        "type": "batch",
        "base_offset": 4,
        "end_offset": 8,
        "record_count": 4,
        "leader_epoch": 1,
    }
    assert second["position"] == rows[0]["size"]
    assert second["producer"] == {"id": 7, "epoch": 1, "base_sequence": 4}
    assert second["attributes"] == ["holds_delayed"]
    assert second["priorities"] == ["high", "normal"]
    assert second["highest_timestamp"] == NOW + 3
    assert second["highest_timestamp_text"] == "2023-11-14T22:13:20.000003Z"
    assert second["append_time"] == NOW + 1
    assert second["durable_offset"] == 4


def test_records_are_lines_of_json_with_bytes_as_base64_and_text(data: Path) -> None:
    first, second, third, fourth = lines_of(segments(data)[0], "--records", "--limit", "4")
    assert first["offset"] == 0
    assert first["key"] == {"base64": "Z3JlZXRpbmc=", "text": "greeting"}
    assert first["value"] == {"base64": "aGVsbG8=", "text": "hello"}
    assert first["headers"] == {"trace": {"base64": "AQ==", "text": "\x01"}}
    assert (first["priority"], first["flags"]) == ("high", ["headers"])
    assert second["key"] is None
    assert set(second["value"]) == {"base64"}
    assert b64decode(second["value"]["base64"]) == b"\xff\xfe" * 40
    assert (third["flags"], third["delay"]) == (["delayed"], 5_000_000)
    assert fourth["key"] == {"base64": "gA=="}
    assert (fourth["timestamp"], fourth["timestamp_text"]) == (NOW + 3, "2023-11-14T22:13:20.000003Z")


def test_it_begins_at_an_offset(data: Path) -> None:
    rows = lines_of(segments(data)[0], "--records", "--from", "6", "--limit", "3")
    assert [row["offset"] for row in rows] == [6, 7, 8]


def test_a_table_of_batches_has_a_line_for_each(data: Path) -> None:
    result = goqueue("log", "dump", segments(data)[0], "--limit", "2")
    titles, first, second = result.stdout.splitlines()
    assert titles.split()[:3] == ["POSITION", "BASE", "OFFSET"]
    assert first.split()[:5] == ["0", "0", "4", first.split()[3], "1"]
    for word in ("2023-11-14T22:13:20.000001Z", "7/1/4", "high,normal", "holds_delayed"):
        assert word in second.split()
    assert result.exit_code == 0


def test_a_table_of_records_shows_bytes_safely(data: Path) -> None:
    result = goqueue("log", "dump", segments(data)[0], "--records", "--limit", "4")
    _, first, second, third, fourth = result.stdout.splitlines()
    assert first.split() == [
        "0",
        "2023-11-14T22:13:20.000000Z",
        "high",
        "greeting",
        "hello",
        "headers",
        "-",
        "trace=\\x01",
    ]
    assert "0xfffefffe" in second
    assert second.split()[4].endswith("…")
    assert "after 5.0 s" in third
    assert "\\x1b[31mred" in fourth
    assert "0x80" in fourth
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("options", [[], ["--records"]])
def test_damage_is_shown_in_its_place_and_exits_with_one(data: Path, output: str, options: list[str]) -> None:
    size = lines_of(segments(data)[0])[0]["size"]
    flip(segments(data)[0], size + 110)
    result = goqueue("log", "dump", segments(data)[0], *options, "-o", output)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    before = (RECORDS_PER_BATCH if options else 1) + (output == "table")
    if output == "table":
        assert lines[before].startswith(f"damage: bytes {size} to {2 * size}, offsets 4 to 7, ")
    else:
        row = json.loads(lines[before])
        assert (row["type"], row["kind"], row["position"]) == ("damage", "damaged_batches", size)
        assert (row["offset"], row["end_offset"]) == (4, 8)
    assert len(lines) > before + 1


def test_the_other_files_of_a_segment_can_be_dumped(data: Path) -> None:
    first = segments(data)[0]
    assert lines_of(first.with_suffix(".index"))[0] == {"type": "place", "number": 0, "offset": 0, "position": 0}
    assert lines_of(first.with_suffix(".timeindex"))[0]["highest_timestamp"] == NOW + 3
    [seal] = lines_of(first.with_suffix(".seal"))
    assert (seal["type"], seal["size"]) == ("seal", first.stat().st_size)
    assert seal["epochs"] == [{"leader_epoch": 1, "from_offset": 0}]
    assert [producer["id"] for producer in seal["producers"]] == [7]
    [point] = lines_of(first.with_name("recovery-point"))
    assert (point["type"], point["offset"]) == ("recovery_point", BATCHES * RECORDS_PER_BATCH)
    assert point["growing"]["size"] == segments(data)[-1].stat().st_size


def test_tables_of_the_other_files_name_their_fields(data: Path) -> None:
    first = segments(data)[0]
    seal = goqueue("log", "dump", first.with_suffix(".seal")).stdout
    assert ["end", "offset", seal.split("end offset")[1].split()[0]] in [line.split() for line in seal.splitlines()]
    assert "holds delayed               yes" in seal
    point = goqueue("log", "dump", first.with_name("recovery-point")).stdout
    assert "growing base offset" in point
    assert "offset                      48" in point
    assert goqueue("log", "dump", first.with_suffix(".index")).stdout.splitlines()[1].split() == ["0", "0", "0"]
    times = goqueue("log", "dump", first.with_suffix(".timeindex")).stdout.splitlines()
    assert times[1].split() == ["0", "2023-11-14T22:13:20.000003Z"]


def test_a_journal_can_be_dumped(data: Path) -> None:
    mark, entries, last = lines_of(data / "groups/progress")
    assert (mark["kind"], entries["kind"], last["kind"]) == ("mark", "entries", "mark")
    assert [payload["text"] for payload in entries["payloads"]] == ["first", "second"]
    table = goqueue("log", "dump", data / "groups/progress").stdout.splitlines()
    assert table[2].split()[1:] == ["entries", "1", "1", str(entries["size"]), "first", "second"]


def test_the_torn_tail_of_a_journal_is_no_damage(data: Path) -> None:
    with (data / "groups/progress").open("ab") as file:
        file.write(b"GQJ")
    assert lines_of(data / "groups/progress")[-1]["type"] == "torn_tail"
    table = goqueue("log", "dump", data / "groups/progress")
    assert table.exit_code == 0
    assert table.stdout.splitlines()[-1].startswith("torn tail: bytes ")


@pytest.mark.parametrize("name", ["00000000000000000000.seal", "recovery-point"])
def test_a_damaged_accelerator_exits_with_one(data: Path, name: str) -> None:
    path = data / "logs/orders/0" / name
    flip(path, 20)
    result = goqueue("log", "dump", path)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].startswith("damage: its head" if "seal" in name else "damage: it does not")


def test_nothing_is_changed(data: Path) -> None:
    before = everything_in(data)
    for path in sorted((data / "logs/orders/0").iterdir()):
        goqueue("log", "dump", path)
    assert everything_in(data) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.log"], "there is no file"),
        ([""], "log verify"),
        (["meta.json"], "no file of goqueue's"),
        (["groups/progress", "--records"], "work on .log files"),
        (["groups/progress", "--from", "3"], "work on .log files"),
    ],
)
def test_misuse_exits_with_two_and_one_sentence(data: Path, arguments: list[str], words: str) -> None:
    result = goqueue("log", "dump", data / arguments[0], *arguments[1:])
    assert result.exit_code == 2
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert words in line


@pytest.mark.parametrize("arguments", [["--limit", "0"], ["--from", "-1"], ["-o", "yaml"]])
def test_options_out_of_range_exit_with_two(data: Path, arguments: list[str]) -> None:
    result = goqueue("log", "dump", segments(data)[0], *arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_a_delay_index_is_dumped_entry_by_entry(data: Path) -> None:
    entries = [
        DelayChange(DelayState.PENDING, 2, NOW + 5_000_000, 2),
        DelayChange(DelayState.MARK, 0, 0, 48),
        DelayChange(DelayState.HIDDEN, 64, 2**63 + 5, 64),
    ]
    path = data / "logs/orders/0/delays"
    path.write_bytes(encode_header() + encode_entries(entries))
    first, second, third = lines_of(path)
    assert first == {
        "type": "delay",
        "position": 16,
        "state": "pending",
        "offset": 2,
        "time": NOW + 5_000_000,
        "time_text": "2023-11-14T22:13:25.000000Z",
        "at": 2,
        "carried": False,
    }
    assert (second["state"], second["at"]) == ("mark", 48)
    assert (third["state"], third["offset"], third["mask"]) == ("hidden", 64, "0x8000000000000005")
    titles, *shown = goqueue("log", "dump", path).stdout.splitlines()
    assert titles.split() == ["POSITION", "STATE", "OFFSET", "TIME", "AT", "CARRIED"]
    assert [line.split() for line in shown] == [
        ["16", "pending", "2", "2023-11-14T22:13:25.000000Z", "2", "no"],
        ["48", "mark", "-", "-", "48", "no"],
        ["80", "hidden", "64", "0x8000000000000005", "64", "no"],
    ]
    flip(path, 60)
    assert goqueue("log", "verify", data).exit_code == 0
    assert "index_damaged" in goqueue("log", "verify", data, "-o", "json").stdout
    assert goqueue("log", "dump", path).exit_code == 1


def test_the_producers_of_a_partition_are_dumped_one_by_one(data: Path) -> None:
    states = ProducerStates()
    states.note(2**62 + 7, 1, WrittenBatch(0, 4, 10), NOW)
    states.note(2**62 + 7, 1, WrittenBatch(5, 5, 20), NOW)
    encoded = trio.run(encode_producers, states, lambda: 21, 0.0)
    path = data / "logs/orders/0/producers"
    path.write_bytes(encoded.data)
    assert lines_of(path) == [
        {
            "type": "producer",
            "id": 2**62 + 7,
            "epoch": 1,
            "last_append_time": NOW,
            "last_append_time_text": "2023-11-14T22:13:20.000000Z",
            "batches": [
                {"first_sequence": 0, "last_sequence": 4, "base_offset": 10},
                {"first_sequence": 5, "last_sequence": 5, "base_offset": 20},
            ],
        }
    ]
    titles, shown = goqueue("log", "dump", path).stdout.splitlines()
    assert titles.split() == ["PRODUCER", "EPOCH", "LAST", "APPEND", "SEQUENCES", "AND", "OFFSETS"]
    assert shown.split() == [str(2**62 + 7), "1", "2023-11-14T22:13:20.000000Z", "0-4@10", "5-5@20"]
    flip(path, 20)
    assert goqueue("log", "dump", path).exit_code == 1


@pytest.mark.parametrize("folder", ["groups", "__metadata/0", "__schemas/0"])
def test_the_entries_of_a_snapshot_log_are_shown_unpacked(data: Path, folder: str) -> None:
    """Elsewhere a value is a message's, and shown as it is."""
    entry = ["billing", 7, NOW, [1, b"\xff"], {"n": 1}]

    async def write() -> None:
        async with trio.open_nursery() as nursery:
            volume = Volume(RealDisk())
            await nursery.start(volume.run)
            await write_log(volume, str(data / folder), [msgpack.packb(entry), b"\xc1"], NOW)
            volume.close()
            nursery.cancel_scope.cancel()

    trio.run(write)
    [path] = (data / folder).glob("*.log")
    first, second = lines_of(path, "--records")
    assert first["entry"] == ["billing", 7, NOW, [1, {"base64": "/w=="}], {"n": 1}]
    assert "entry" not in second, "no goqueue has written it"
    assert "['billing', 7" in goqueue("log", "dump", path, "--records").stdout
    assert "entry" not in lines_of(segments(data)[0], "--records")[0]
