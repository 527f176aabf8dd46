"""Counts the rebalances of a group, and how long each took."""

from collections.abc import Sequence

import trio

from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.groups.effects import Assign, Effect


class RebalanceTimes:
    def __init__(self, group: str, counts: GroupCounts) -> None:
        self._group = group
        self._counts = counts
        self._since: float | None = None
        """When the owners began to change; None while the group is settled."""

    def note(self, effects: Sequence[Effect], waits_since: float | None) -> None:
        """These effects were performed; `waits_since`: some member has yet to let go of what it lost."""
        now = trio.current_time()
        if self._since is None and any(isinstance(effect, Assign) for effect in effects):
            self._since = now if waits_since is None else waits_since
        if self._since is not None and waits_since is None:
            self._counts.of[self._group].note_rebalance(now - self._since)
            self._since = None
