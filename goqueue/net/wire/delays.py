"""The messages of the protocol about delayed messages. Each is named by its partition and its original's offset."""

from typing import Annotated, NamedTuple, TypeAlias

from goqueue.net.wire.fields import U32, U63, Blob, Many, Range, Size, Uuid
from goqueue.net.wire.registry import kind

PAGE_MAX = 1_000
MessageId: TypeAlias = Annotated[bytes, Size(1, 128)]


@kind(88, "DelayedEntries")
class ListDelayed(NamedTuple):
    """From this offset on, so many at most, in order of offsets: those pending, or those that are no longer."""

    topic: Uuid
    partition: U32
    first: U63
    count_max: Annotated[int, Range(1, PAGE_MAX)]
    finished: bool


class DelayedEntry(NamedTuple):
    """`state` is 1 pending, 2 delivered, 3 cancelled, 4 expired; times are µs since 1970."""

    offset: U63
    state: Annotated[int, Range(1, 4)]
    due: U63 | None
    finished: U63 | None
    delivered_at: U63 | None
    priority: Annotated[int, Range(0, 4)]
    key: Blob | None
    message_id: MessageId | None = None


@kind(89)
class DelayedEntries(NamedTuple):
    """Fewer than there are, where keys are long or messages large; none only when there are no more."""

    entries: Annotated[tuple[DelayedEntry, ...], Many]
    pending: U63
    """All that are pending in the partition."""


@kind(90, "DelayChanged")
class CancelDelayed(NamedTuple):
    topic: Uuid
    partition: U32
    offset: U63


@kind(92, "DelayChanged")
class MoveDelayed(NamedTuple):
    """One of the two is nil: the time at which it is due, or how long from now, both in µs."""

    topic: Uuid
    partition: U32
    offset: U63
    due: U63 | None
    delay: U63 | None


@kind(91)
class DelayChanged(NamedTuple):
    """True after a cancel: it will never be delivered. True after a move: it was pending."""

    is_so: bool


@kind(94, "DelayedCounts")
class CountDelayed(NamedTuple):
    """The times rise."""

    topic: Uuid
    partition: U32
    edges: Annotated[tuple[U63, ...], Many]


@kind(95)
class DelayedCounts(NamedTuple):
    """How many are due before each of the times but not before the one in front of it; the last: later."""

    counts: Annotated[tuple[U63, ...], Many]


@kind(96, "DelayedEntries")
class FindDelayed(NamedTuple):
    """The pending messages that were published with this id, in order of offsets. Most often there is one."""

    topic: Uuid
    partition: U32
    message_id: MessageId
    first: U63 = 0
    count_max: Annotated[int, Range(1, PAGE_MAX)] = PAGE_MAX
