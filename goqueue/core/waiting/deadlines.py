"""When each of many ledgers is to be looked at; ledgers without a deadline are not here.

A ledger whose deadline moved to a later time is looked at once for nothing: an early settlement then costs no more
than that look.
"""

from heapq import heapify, heappop, heappush

_TIDY_FROM = 64


class LedgerDeadlines:
    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def note(self, group: str, time: float | None) -> None:
        """The group's ledger is to be looked at by then."""
        if time is not None and time < self._times.get(group, float("inf")):
            self._times[group] = time
            heappush(self._heap, (time, group))
            if len(self._heap) > max(_TIDY_FROM, 2 * len(self._times)):
                self._heap = [(each, name) for name, each in self._times.items()]
                heapify(self._heap)

    def forget(self, group: str) -> None:
        self._times.pop(group, None)

    def next(self) -> float | None:
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[str]:
        """The groups whose time has come. Each is to be noted anew."""
        groups = list[str]()
        while (time := self.next()) is not None and time <= now:
            group = heappop(self._heap)[1]
            del self._times[group]
            groups.append(group)
        return groups
