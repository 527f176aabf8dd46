"""A table's files after a crash at any step: each row once. No Spark: files in memory, which cease to change."""

import json
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from goqueue.spark.files import Files, FoundFile
from goqueue.spark.ingest.merging import Merging, merge_folder
from goqueue.spark.ingest.tablefolder import Commit, TableFolder

DAY = "/t/log_date=2026-11-17"
BATCHES = 7


class Crash(Exception):
    """The process is gone."""


class MemoryFiles(Files):
    """Content by path. Every change may be the last: after `changes_left` of them the process is gone."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.changes_left: int | None = None

    def _change(self) -> None:
        if self.changes_left == 0:
            raise Crash
        if self.changes_left is not None:
            self.changes_left -= 1

    def write(self, path: str, content: str) -> None:
        self._change()
        self.kept[path] = content

    def whole(self, path: str) -> str:
        return path

    def exists(self, path: str) -> bool:
        return any(each == path or each.startswith(f"{path}/") for each in self.kept)

    def in_folder(self, path: str) -> list[FoundFile]:
        inside = {
            each.removeprefix(f"{path}/").partition("/")[::2] for each in self.kept if each.startswith(f"{path}/")
        }
        return [
            FoundFile(f"{path}/{name}", name, 1, is_folder=bool(rest))
            for name, rest in sorted(dict(inside).items())
        ]

    def make_folder(self, path: str) -> None:
        pass

    def remove(self, path: str) -> None:
        """File by file, as some file systems do."""
        for each in [each for each in self.kept if each == path or each.startswith(f"{path}/")]:
            self._change()
            del self.kept[each]

    def move(self, source: str, target: str) -> None:
        self._change()
        assert target not in self.kept
        self.kept[target] = self.kept.pop(source)

    def read_text(self, path: str) -> str:
        return self.kept[path]

    def write_json(self, path: str, content: Any) -> None:
        self.write(f"{path}.tmp", "half of it")
        self.move(f"{path}.tmp", path)
        self.kept[path] = json.dumps(content)


class World:
    """Spark, which numbers batches and repeats one of which it does not know that it was done."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.done = 0

    def run(self) -> None:
        table = TableFolder(self.files, "/t")
        table.recover()
        while self.done < BATCHES:
            table.take(self.done, lambda: self.written(table), lambda: None)
            while merge_folder(table, DAY, Merging(2), self.merge, lambda: None):
                pass
            self.done += 1

    def written(self, table: TableFolder) -> Commit:
        staged, number = table.new_staging(), self.done
        for row in range(2):
            self.files.write(f"{staged}/rows/log_date=2026-11-17/s{row}.parquet", f"{number}.{row} ")
        self.files.write(f"{staged}/quarantine/log_date=2026-11-17/s.parquet", f"{number}.bad ")
        moves = table.moves(f"{staged}/rows", table.path, f"{number:010d}")
        moves += table.moves(f"{staged}/quarantine", table.quarantine, f"{number:010d}")
        return Commit(moves, [staged], 2, {"bad": 1})

    def merge(self, files: Any, staged: str) -> None:
        self.files.write(f"{staged}/merged.parquet", "".join(self.files.kept[each.path] for each in files))

    def rows(self, root: str) -> list[str]:
        found = [content for path, content in self.files.kept.items() if path.startswith(f"{root}/log_date=")]
        return sorted("".join(found).split())


def check(world: World) -> None:
    assert world.rows("/t") == sorted(f"{number}.{row}" for number in range(BATCHES) for row in range(2))
    assert world.rows("/t_quarantine") == sorted(f"{number}.bad" for number in range(BATCHES))
    assert not [path for path in world.files.kept if "/staging/" in path]
    assert len([path for path in world.files.kept if path.startswith(DAY)]) <= 2


def test_without_a_crash() -> None:
    world = World()
    world.run()
    check(world)


@pytest.mark.parametrize("again", [None, 0, 1, 2, 5])
def test_a_crash_before_any_change_leaves_each_row_once(again: int | None) -> None:
    """And another so many changes later, while the first is being mended."""
    for changes in count():
        world = World()
        world.files.changes_left = changes
        try:
            world.run()
            break
        except Crash:
            pass
        if again is not None:
            world.files.changes_left = again
            with suppress(Crash):
                world.run()
        world.files.changes_left = None
        world.run()
        check(world)
    assert changes > 60
