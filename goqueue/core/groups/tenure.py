"""The tenure of a partition in a group: which member may take from it and commit to it (G10).

The group names the owner and the generation in which it became that. The owner may know a later generation, as
others change without it, but not an older one: then it had lost the partition in between. In a shared group every
member has every partition, and no generation counts.

A member is represented by one consumer at a time. One that another has replaced is fenced for good: it may not know
it, and come back after any time. One that left may still have a request under way, and is refused: a delivery to
it would never be settled. It may come back. Requests wait a minute or two at most, so a consumer that left is
forgotten after ten.
"""

from math import inf

from goqueue.core.groups.member import fenced
from goqueue.errors import StaleGeneration

GONE_MAX = 1_024
"""Limit of the consumers that are remembered, the newest: as many may leave at once, with a request under way
each."""
LEFT_SECONDS = 600.0


class Tenure:
    def __init__(self) -> None:
        self.member: str | None = None
        self.generation = 0
        """The generation of the last change of owner."""
        self.is_shared = False
        self._gone: dict[tuple[str, int], float] = {}
        """Consumers that left or were replaced, by member and instance: until when each is remembered."""

    def check(self, member: str, generation: int, instance: int, place: str) -> None:
        """Raise unless this consumer, as far as it knows, may take and commit. `place` names the partition."""
        if self._gone.get((member, instance)) == inf:
            raise fenced(member)
        if not self.is_held_by(member, instance) or not (self.is_shared or generation >= self.generation):
            raise StaleGeneration(
                f"{member} in generation {generation} does not have {place}; await the newest assignment"
            )

    def is_held_by(self, member: str, instance: int) -> bool:
        """In whatever generation: a member that waits for messages may not know the newest."""
        return (self.is_shared or member == self.member) and (member, instance) not in self._gone

    def assign(self, member: str | None, generation: int) -> None:
        self.member, self.generation = member, generation

    def note_left(self, member: str, instance: int, now: float, *, keeps_place: bool) -> None:
        """The next owner is named later. With `keeps_place` the member remains the owner, for its next consumer."""
        self._note_gone((member, instance), now + LEFT_SECONDS, now)
        if member == self.member and not keeps_place:
            self.member = None

    def note_replaced(self, member: str, before: int, instance: int, now: float) -> None:
        """The new consumer may be the one before, which had closed."""
        self._note_gone((member, before), inf, now)
        self._gone.pop((member, instance), None)

    def _note_gone(self, consumer: tuple[str, int], until: float, now: float) -> None:
        self._gone.pop(consumer, None)
        self._gone[consumer] = until
        oldest = next(iter(self._gone))
        while self._gone[oldest] <= now or len(self._gone) > GONE_MAX:
            del self._gone[oldest]
            oldest = next(iter(self._gone))
