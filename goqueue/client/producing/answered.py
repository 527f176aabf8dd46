"""The outcome of messages that several callers sent, each of which waits for its own."""

from collections.abc import Sequence
from typing import Protocol

from goqueue.client.reading.message import Published
from goqueue.errors import GoQueueError
from goqueue.types import Offset


class Answered(Protocol):
    """A caller, told once."""

    def succeed(self, value: Published) -> None: ...

    def fail(self, error: BaseException) -> None: ...


class AnsweredOutcome:
    """As `Outcome` for the sender. A message that waits for its partition keeps no other caller waiting."""

    __slots__ = ("_callers", "_unanswered", "since")

    def __init__(self, callers: Sequence[Answered], since: float) -> None:
        self._callers: list[Answered | None] = list(callers)
        self._unanswered = len(callers)
        self.since = since

    @property
    def is_settled(self) -> bool:
        return self._unanswered == 0

    def confirm(self, places: Sequence[int], topic: str, partition: int, base_offset: Offset | None) -> int:
        count = 0
        for number, place in enumerate(places):
            offset = None if base_offset is None else base_offset + number
            count += self.settle(place, Published(topic, partition, offset))
        return count

    def fail(self, places: Sequence[int], error: GoQueueError) -> int:
        return sum(self.settle(place, error) for place in places)

    def settle(self, place: int, result: Published | GoQueueError) -> int:
        """Returns 1, or 0 if it was settled before: the first result holds."""
        caller, self._callers[place] = self._callers[place], None
        if caller is None:
            return 0
        self._unanswered -= 1
        if isinstance(result, GoQueueError):
            caller.fail(result)
        else:
            caller.succeed(result)
        return 1

    def give_up(self, error: GoQueueError) -> int:
        """Fail all messages that are not settled."""
        return self.fail(range(len(self._callers)), error)
