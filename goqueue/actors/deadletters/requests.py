"""The requests about dead letters."""

from dataclasses import dataclass

from goqueue.actors.runtime.messages import Request
from goqueue.types import Offset


@dataclass(frozen=True, slots=True)
class RedriveDeadLetters(Request[tuple[int, int]]):
    """Answered with the number that was sent, or would be, and the number that remains. The fields are those of
    the wire's `Redrive`, in its order."""

    topic: str
    group: str | None
    partition: int | None
    offsets: tuple[Offset, ...] | None
    reason: str | None
    to: str | None
    all_groups: bool
    messages_max: int | None
    per_second: int | None
    dry_run: bool
