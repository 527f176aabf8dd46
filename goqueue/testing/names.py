"""The names on the simulated disk, kept twice, and the changes between.

Each folder holds its entries as they are and as the platter has them. Changes since the last `sync_directory` are a
list in order: a name gained, a name lost, or both at once (a rename). What may be on the platter after a power loss
follows from three rules:

- Changes of one name reach the platter in order: some of them, and none after the first that does not.
- A rename is one change of two names. It happened or it did not: the file always has exactly one name.
- Changes of different names are independent. But a rename out of reach would lose a durable file, so it also waits
  for the folders above its target, and for files that moved out of a folder it replaces. So does the removal of a
  folder.

So each change lists the names it touches, and the names it needs: a change can be on the platter only if all
earlier changes that touch the names it needs are there, too.

A `sync_directory` settles the changes of its folder and those that they need; a rename belongs to the folder that
the name moved to. A failed one dooms them: they stay undone unless a later change that needs them is settled.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from errno import ENOENT
from typing import TypeAlias

from goqueue.errors import DiskFailed, UnexpectedFile
from goqueue.testing.contents import FileContents


@dataclass(eq=False, slots=True)
class Folder:
    entries: "dict[str, Node]" = field(default_factory=dict)
    durable: "dict[str, Node]" = field(default_factory=dict)


Node: TypeAlias = FileContents | Folder


@dataclass(frozen=True, slots=True)
class NamePlace:
    """A name in a folder, whatever it names."""

    folder: Folder
    name: str


@dataclass(eq=False, slots=True)
class NameChange:
    node: Node
    left: NamePlace | None
    taken: NamePlace | None
    needs: Sequence[NamePlace]
    number: int
    doomed: bool = False

    @property
    def touches(self) -> list[NamePlace]:
        return [place for place in (self.left, self.taken) if place is not None]

    @property
    def folder(self) -> Folder:
        return self.touches[-1].folder

    def settle(self) -> None:
        if self.left is not None:
            self.left.folder.durable.pop(self.left.name, None)
        if self.taken is not None:
            self.taken.folder.durable[self.taken.name] = self.node


class Names:
    def __init__(self) -> None:
        self.root = Folder()
        self.changes: list[NameChange] = []
        self._begun = 0

    def find(self, path: str) -> Node:
        node: Node | None = self.root
        for name in _parts(path):
            node = _folder_on_the_way(node, path).entries.get(name)
        if node is None:
            raise FileNotFoundError(ENOENT, "no such file or directory", path)
        return node

    def find_file(self, path: str) -> FileContents:
        node = self.find(path)
        if isinstance(node, Folder):
            raise UnexpectedFile(f"{path} is a directory, where a file is expected; move it away", path=path)
        return node

    def find_folder(self, path: str) -> Folder:
        node = self.find(path)
        if isinstance(node, FileContents):
            raise UnexpectedFile(f"{path} is a file, where a directory is expected; move it away", path=path)
        return node

    def place(self, path: str) -> NamePlace:
        """The path's last name and its folder; the folders above it exist."""
        return self._way(path)[-1]

    def link(self, place: NamePlace, node: Node) -> None:
        place.folder.entries[place.name] = node
        self._note(node, None, place, [place])

    def unlink(self, place: NamePlace) -> None:
        node = place.folder.entries.pop(place.name)
        self._note(node, place, None, [place])

    def remove_folder(self, path: str) -> None:
        place, folder = self.place(path), self.find_folder(path)
        if folder.entries:
            raise DiskFailed(f"{path} is a directory that is not empty", path=path)
        del place.folder.entries[place.name]
        self._note(folder, place, None, [place, *_left_behind(folder)])

    def move(self, old: str, new: str) -> Node | None:
        """Rename in one step. Returns what had the new name before."""
        node, left, way = self.find(old), self.place(old), self._way(new)
        taken = way[-1]
        if left == taken:
            return None
        replaced = taken.folder.entries.get(taken.name)
        _check_move(new, node, way, replaced)
        needs = [left, *way]
        if isinstance(replaced, Folder):
            needs += _left_behind(replaced)
        del left.folder.entries[left.name]
        taken.folder.entries[taken.name] = node
        self._note(node, left, taken, needs)
        return replaced

    def mark(self) -> int:
        return self._begun

    def settle(self, folder: Folder, mark: int) -> None:
        """Changes in the folder before the mark are on the platter, with all changes that they need."""
        covered = self._covered(folder, mark)
        for change in covered:
            change.settle()
        numbers = {change.number for change in covered}
        self.changes = [change for change in self.changes if change.number not in numbers]

    def doom(self, folder: Folder, mark: int) -> None:
        for change in self.changes:
            if change.folder is folder and change.number < mark:
                change.doomed = True

    def show_durable(self) -> None:
        """After a power loss: only the durable names are left."""
        self.changes.clear()
        _show_durable(self.root)

    def files(self) -> list[FileContents]:
        return [node for node in _below(self.root) if isinstance(node, FileContents)]

    def _covered(self, folder: Folder, mark: int) -> list[NameChange]:
        needed: set[NamePlace] = set()
        covered = []
        for change in reversed(self.changes):
            own = change.folder is folder and change.number < mark and not change.doomed
            if own or any(place in needed for place in change.touches):
                needed.update(change.needs)
                covered.append(change)
        return covered[::-1]

    def _note(
        self, node: Node, left: NamePlace | None, taken: NamePlace | None, needs: Sequence[NamePlace]
    ) -> None:
        self.changes.append(NameChange(node, left, taken, needs, self._begun))
        self._begun += 1

    def _way(self, path: str) -> list[NamePlace]:
        way = list(self._walk(path))
        if not way:
            raise DiskFailed("the root of the disk can not be made, moved or removed", path=path)
        return way

    def _walk(self, path: str) -> Iterator[NamePlace]:
        """The names from the root to the path's own, which is the only one that may not exist."""
        node: Node | None = self.root
        for name in _parts(path):
            folder = _folder_on_the_way(node, path)
            yield NamePlace(folder, name)
            node = folder.entries.get(name)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _folder_on_the_way(node: Node | None, path: str) -> Folder:
    if node is None:
        raise FileNotFoundError(ENOENT, "no such file or directory", path)
    if isinstance(node, FileContents):
        raise UnexpectedFile(f"{path} leads through a file, where a directory is expected", path=path)
    return node


def _check_move(new: str, node: Node, way: Sequence[NamePlace], replaced: Node | None) -> None:
    if any(place.folder is node for place in way):
        raise DiskFailed(f"{new} lies inside what is to be moved there", path=new)
    if replaced is not None and type(replaced) is not type(node):
        raise DiskFailed(f"a file and a directory can not replace each other at {new}", path=new)
    if isinstance(replaced, Folder) and replaced.entries:
        raise DiskFailed(f"{new} is a directory that is not empty", path=new)


def _left_behind(folder: Folder) -> list[NamePlace]:
    """Names that an empty folder still has on the platter: their files may have moved, and must not be lost."""
    return [NamePlace(folder, name) for name in folder.durable]


def _show_durable(folder: Folder) -> None:
    folder.entries = dict(folder.durable)
    for node in folder.entries.values():
        if isinstance(node, Folder):
            _show_durable(node)


def _below(folder: Folder) -> Iterator[Node]:
    for name in sorted(folder.entries):
        node = folder.entries[name]
        yield node
        if isinstance(node, Folder):
            yield from _below(node)
