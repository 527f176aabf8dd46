"""The tenure of a partition in a group: which member may take from it and commit to it (G10).

The group names the owner and the generation in which it became that. The owner may know a later generation, as
others change without it, but not an older one: then it had lost the partition in between. In a shared group every
member has every partition, and no generation counts.

A member is represented by one consumer at a time. One that another has replaced is fenced for good. One that left
may still have a request under way; it is refused, but may come back.
"""

from goqueue.core.groups.goneconsumers import GoneConsumers
from goqueue.core.groups.member import fenced
from goqueue.errors import StaleGeneration


class Tenure:
    def __init__(self) -> None:
        self.member: str | None = None
        self.generation = 0
        """The generation of the last change of owner."""
        self.is_shared = False
        self._gone = GoneConsumers()

    def check(self, member: str, generation: int, instance: int, place: str) -> None:
        """Raise unless this consumer, as far as it knows, may take and commit. `place` names the partition."""
        if self._gone.is_replaced(member, instance):
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
        self._gone.note_left(member, instance, now)
        if member == self.member and not keeps_place:
            self.member = None

    def note_replaced(self, member: str, before: int, instance: int, now: float) -> None:
        """The new consumer may be the one before, which had closed."""
        self._gone.note_replaced(member, before, now)
        self._gone.forget(member, instance)
