"""The journals of a node's groups, on one board: for whoever wants all of them as they are at one moment.

Each is still its owner's alone. Others take a snapshot that stands for all that was written to it, and never wait
while they do: together with the standings of the logs (openlogs.py) it is one moment of the whole node.
"""

from collections.abc import Callable

Snapshot = Callable[[], bytes]


class OpenJournals:
    def __init__(self) -> None:
        self._snapshots: dict[str, Snapshot] = {}

    def enter(self, name: str, snapshot: Snapshot) -> None:
        self._snapshots[name] = snapshot

    def leave(self, name: str, snapshot: Snapshot) -> None:
        """Its owner ends. Twice is once, and the one that came after it stays."""
        if self._snapshots.get(name) == snapshot:
            del self._snapshots[name]

    def snapshot(self, name: str) -> bytes | None:
        """None while nobody has it open."""
        snapshot = self._snapshots.get(name)
        return None if snapshot is None else snapshot()
