"""What a member may receive now, and from which of its partitions.

A receive asks the partitions in turn, beginning behind the one that gave the last delivery: none waits for ever,
however much the others have. Each may give what the ones before have left of the messages and bytes that the
member wants.

A message on its last permitted delivery that was lost before is delivered alone, so that the next crash of the
member is the fault of no other message. So no further partition is asked after it, and the member gets nothing else
until it says that it holds nothing. A member that holds something is busy, and is given no such message.

Messages of a delivery have a lease and cannot be dropped, as a fetch may drop what does not fit. So no further
partition is asked once messages, bytes or time are used up. A delivery that would make the answer too large is
released, uncounted.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Generic, TypeVar

TOGETHER_BYTES_MAX = 16 * 1024 * 1024
"""Limit of deliveries from several partitions in one answer; a single batch may have twice that."""
FIRST_SECONDS_MAX = 0.1
"""Limit of the time for taking, once something was taken: of a thousand partitions the first few will do. A member
with a backlog is given all that it wants."""

Partition = TypeVar("Partition")


@dataclass(frozen=True, slots=True)
class ReceiveLimits:
    """What a member wants of one receive, from all partitions together; or the rest of it."""

    messages_max: int
    bytes_max: int
    lasts_max: int
    """Limit of messages on their last permitted delivery: 0 for a prefetch."""
    is_busy: bool
    """It holds messages, or will when the answers that are under way arrive."""


class ReceiveShare:
    """One receive, shared out over partitions."""

    def __init__(self, limits: ReceiveLimits, order: Sequence[int], ends_at: float = inf) -> None:
        self.order = order
        """The numbers of the partitions to ask, in turn."""
        self.served: list[int] = []
        """Those that gave something."""
        self.has_one_alone = False
        self._limits = limits
        self._ends_at = ends_at
        self._messages = self._bytes = 0
        self._is_full = False

    def is_full(self, now: float) -> bool:
        """No further partition is asked, though some may have more."""
        return self._is_full or (bool(self.served) and now >= self._ends_at)

    def rest(self) -> ReceiveLimits:
        """What the next partition may give."""
        limits, messages = self._limits, self._messages
        return ReceiveLimits(
            limits.messages_max - messages,
            limits.bytes_max - self._bytes,
            max(0, limits.lasts_max - messages),
            limits.is_busy or messages > 0,
        )

    def admit(self, number: int, messages: int, size: int, *, is_alone: bool = False) -> bool:
        """Whether this delivery of a partition is part of the answer. Otherwise it is to be released."""
        if self.served and self._bytes + size > TOGETHER_BYTES_MAX:
            self._is_full = True
            return False
        self.served.append(number)
        self.has_one_alone |= is_alone
        self._messages += messages
        self._bytes += size
        is_used_up = self._messages >= self._limits.messages_max or self._bytes >= self._limits.bytes_max
        self._is_full = is_used_up or is_alone
        return True


class MemberTurns(Generic[Partition]):
    """The receives of one member, one after the other."""

    def __init__(self) -> None:
        self.given = 0
        """The number of deliveries to it."""
        self.served_at = 0.0
        """When it last got a delivery; 0 if it never did."""
        self.has_backlog = False
        """The last receive was filled: there are probably more messages."""
        self._served: Partition | None = None
        self._holds_alone = False

    def admit(self, limits: ReceiveLimits, given: int) -> ReceiveLimits | None:
        """The limits of a receive; None if it gets nothing, as the member holds a message alone. It asked before it
        knew. `given`: the number of deliveries when it asked. With a later one it is busy, though it was not then.
        """
        is_busy = limits.is_busy or self.given != given
        self._holds_alone &= is_busy
        if self._holds_alone:
            return None
        return limits if limits.is_busy == is_busy else replace(limits, is_busy=is_busy)

    def share(
        self, limits: ReceiveLimits, partitions: Sequence[Partition], now: float, asked: Container[int] | None
    ) -> ReceiveShare:
        """Share a receive out over these partitions; with `asked`, only those. The first is behind that of the last
        delivery, if that is still assigned."""
        served = self._served
        first = 0 if served is None or served not in partitions else partitions.index(served) + 1
        turns = (*range(first, len(partitions)), *range(first))
        order = turns if asked is None else [number for number in turns if number in asked]
        return ReceiveShare(limits, order, inf if self.has_backlog else now + FIRST_SECONDS_MAX)

    def note(self, share: ReceiveShare, partitions: Sequence[Partition], now: float) -> None:
        """A receive has ended."""
        self.has_backlog = share.is_full(now)
        if share.served:
            self._served, self.served_at = partitions[share.served[-1]], now
            self.given += len(share.served)
            self._holds_alone |= share.has_one_alone
