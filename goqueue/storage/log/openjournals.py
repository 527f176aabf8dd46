"""The open journals of a node's groups, so that all of them can be seen at one moment.

Each journal still has one owner. Others take a snapshot of its state, and never wait while they do: together with
the standings of the logs (openlogs.py) that is one moment of the whole node.
"""

from collections.abc import Callable

Snapshot = Callable[[], bytes | None]


class OpenJournals:
    def __init__(self) -> None:
        self._snapshots: dict[str, Snapshot] = {}

    def enter(self, name: str, snapshot: Snapshot) -> None:
        self._snapshots[name] = snapshot

    def leave(self, name: str, snapshot: Snapshot) -> None:
        """The owner ends. A second call does nothing, and does not remove a successor."""
        if self._snapshots.get(name) == snapshot:
            del self._snapshots[name]

    def snapshot(self, name: str) -> bytes | None:
        """None while the journal is not open."""
        snapshot = self._snapshots.get(name)
        return None if snapshot is None else snapshot()
