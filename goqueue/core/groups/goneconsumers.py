"""Consumers of a group that left, or that another one replaced: a request of theirs may still be under way.

A partition must not deliver to them: the delivery would never be settled. Requests wait a minute or two at most, so
a consumer that left is forgotten after ten. A consumer that was replaced may not know it and come back after any
time: the newest of these are remembered.
"""

from math import inf

REMEMBERED_MAX = 1_024
"""Limit for each group and partition: as many consumers may leave at once, with a request under way each."""
LEFT_SECONDS = 600.0


class GoneConsumers:
    def __init__(self) -> None:
        self._until: dict[tuple[str, int], float] = {}
        """By member and instance: until when it is remembered."""

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, consumer: tuple[str, int]) -> bool:
        return consumer in self._until

    def is_replaced(self, member: str, instance: int) -> bool:
        return self._until.get((member, instance)) == inf

    def note_left(self, member: str, instance: int, now: float) -> None:
        self._note((member, instance), now + LEFT_SECONDS, now)

    def note_replaced(self, member: str, instance: int, now: float) -> None:
        self._note((member, instance), inf, now)

    def forget(self, member: str, instance: int) -> None:
        """The consumer is there again."""
        self._until.pop((member, instance), None)

    def _note(self, consumer: tuple[str, int], until: float, now: float) -> None:
        self._until.pop(consumer, None)
        self._until[consumer] = until
        oldest = next(iter(self._until))
        while self._until[oldest] <= now or len(self._until) > REMEMBERED_MAX:
            del self._until[oldest]
            oldest = next(iter(self._until))
