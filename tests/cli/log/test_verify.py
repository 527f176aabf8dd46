"""`goqueue log verify`: what it prints, and how it ends."""

import json
import sys
from pathlib import Path
from subprocess import PIPE, Popen, run

import pytest

from tests.cli.directories import BATCHES, RECORDS_PER_BATCH, everything_in, flip, goqueue, segments

HOLD = """
import sys
from random import Random
import trio
from goqueue.storage.directory.datadirectory import DataDirectory
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.log.volume import Volume

async def hold(path):
    async with trio.open_nursery() as nursery:
        volume = Volume(RealDisk())
        await nursery.start(volume.run)
        await DataDirectory.open(volume, path, node="one", random=Random(0))
        print("held", flush=True)
        sys.stdin.read()
        nursery.cancel_scope.cancel()

trio.run(hold, sys.argv[1])
"""


def test_a_sound_directory_exits_with_zero_and_is_counted(data: Path) -> None:
    result = goqueue("log", "verify", data)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["PARTITION", "BASE", "END", "RECORDS", "BATCHES", "BYTES", "STATE"]
    assert [line.split()[0] for line in lines[1 : 1 + len(segments(data))]] == ["orders/0"] * len(segments(data))
    assert "groups/progress" in result.stdout
    size = sum(path.stat().st_size for path in segments(data))
    records = BATCHES * RECORDS_PER_BATCH
    assert lines[-1] == f"sound: 1 partition, {len(segments(data))} segments, {records} records, {size} bytes read"
    assert result.stderr == ""


def test_one_partition_can_be_verified_alone(data: Path) -> None:
    result = goqueue("log", "verify", data / "logs/orders/0")
    assert result.exit_code == 0
    assert "JOURNAL" not in result.stdout


def test_damage_exits_with_one_and_says_where(data: Path) -> None:
    flip(segments(data)[0], 150)
    result = goqueue("log", "verify", data)
    assert result.exit_code == 1
    [line] = [line for line in result.stdout.splitlines() if line.startswith("damage ")]
    assert f"{segments(data)[0]}, bytes 0 to " in line
    assert "offsets 0 to 3" in line
    assert "restore the file from a backup" in line
    assert result.stdout.splitlines()[-1].startswith("1 damage: ")


def test_a_warning_exits_with_zero(data: Path) -> None:
    segments(data)[0].with_suffix(".index").unlink()
    with segments(data)[-1].open("ab") as file:
        file.write(b"torn")
    result = goqueue("log", "verify", data)
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if line.startswith("warning")]
    assert ["index_missing" in lines[0], "torn_tail" in lines[1]] == [True, True]
    assert "will be rebuilt" in lines[0]
    assert "will be copied aside and cut at the next start" in lines[1]
    assert result.stdout.splitlines()[-1].startswith("sound, 2 warnings: ")


def test_json_is_one_document(data: Path) -> None:
    flip(segments(data)[0], 150)
    segments(data)[0].with_suffix(".seal").unlink()
    result = goqueue("log", "verify", data, "-o", "json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["sound"], document["damage"], document["warnings"]) == (False, 1, 1)
    [partition] = document["partitions"]
    assert [segment["path"] for segment in partition["segments"]] == [str(path) for path in segments(data)]
    states = [segment["state"] for segment in partition["segments"]]
    assert (states[0], states[-1]) == ("unsealed", "growing")
    [damage] = [finding for finding in partition["findings"] if finding["severity"] == "damage"]
    assert (damage["kind"], damage["path"]) == ("damaged_batches", str(segments(data)[0]))
    assert (damage["position"], damage["offset"], damage["end_offset"]) == (0, 0, 4)
    assert [journal["entries"] for journal in document["journals"]] == [2]


def test_an_unknown_format_is_named_and_exits_with_one(data: Path) -> None:
    meta = data / "meta.json"
    meta.write_text(meta.read_text().replace('"format": 1', '"format": 9'))
    result = goqueue("log", "verify", data)
    assert result.exit_code == 1
    assert "format 9 is unknown" in result.stdout


@pytest.mark.parametrize("damaged", [True, False])
def test_nothing_is_changed(data: Path, damaged: bool) -> None:
    if damaged:
        flip(segments(data)[0], 150)
        segments(data)[1].unlink()
    before = everything_in(data)
    goqueue("log", "verify", data)
    assert everything_in(data) == before


def test_it_works_while_another_process_holds_the_directory(data: Path) -> None:
    with Popen([sys.executable, "-c", HOLD, str(data)], stdin=PIPE, stdout=PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        before = everything_in(data)
        assert goqueue("log", "verify", data).exit_code == 0
        assert everything_in(data) == before


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_directory_that_is_none_exits_with_two_and_one_sentence(tmp_path: Path, output: str) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        result = goqueue("log", "verify", path, "-o", output)
        assert result.exit_code == 2
        assert result.stdout == ""
        [line] = result.stderr.splitlines()
        assert line.startswith("Error: ")
        assert str(path) in line
        assert "; give the " in line


def test_names_that_would_colour_a_terminal_are_escaped(data: Path) -> None:
    (data / "logs/\x1b[31mred/0").mkdir(parents=True)
    result = goqueue("log", "verify", data)
    assert "\x1b" not in result.stdout
    assert "\\x1b[31mred/0" in result.stdout


def test_it_runs_as_a_program(data: Path) -> None:
    """No terminal, so no colours and no progress bar."""
    flip(segments(data)[0], 150)
    ended = run(
        [sys.executable, "-m", "goqueue", "log", "verify", data], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "1 damage: " in ended.stdout
    assert "\x1b" not in ended.stdout
    assert ended.stderr == ""


def test_the_version_is_told() -> None:
    assert goqueue("--version").stdout == "goqueue, version 0.1.0\n"
