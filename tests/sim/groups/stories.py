"""One message in one group: each of its deliveries as the consumers saw it, and what must follow from that.

A consumer does not know when the broker began a lease, only when it was handed the message. So there are two
bounds: a lease stands at least until `until_least` and at most until `until_most`. What lies in between proves
nothing.

A kill or an orderly stop changes nothing here: deliveries, receipts and acks survive them. After a power cut some
of what was said comes to nothing, so whatever was concluded before it is dropped.
"""

import math
from dataclasses import dataclass, field

from goqueue.core.ledger.settings import backoff
from tests.sim.clients.history import Place
from tests.sim.disk.history import Violation

SLACK_SECONDS = 0.01
ROUNDING_SECONDS = 0.001
"""Durations travel in whole milliseconds."""


@dataclass(slots=True, eq=False)
class Held:
    """One delivery of one message in somebody's hands."""

    place: Place
    holder: str
    attempt: int
    receipt: str
    at: float
    until_least: float
    until_most: float
    is_open: bool = True
    """Nobody has said what becomes of it, and nothing has put its lease in doubt."""
    is_acked: bool = False
    """An ack of it was answered."""
    member: str | None = None
    """The id of its own under which the holder came."""
    replaceable_from: float = math.inf
    """From then on another consumer may have come under that id, which ends the lease."""
    lane: int = 2

    @property
    def stands_until(self) -> float:
        """At least."""
        return min(self.until_least, self.replaceable_from)

    def __str__(self) -> str:
        return f"{self.receipt}, handed to {self.holder} at {self.at:.3f}"


@dataclass(slots=True)
class Story:
    deliveries: list[Held] = field(default_factory=list)
    """Since the last power cut."""
    receipts: dict[str, Held] = field(default_factory=dict)
    """All that were ever handed out, also those of which nothing can be concluded."""
    attempt_least: int = 1
    """The next delivery has at least this number."""
    not_before: float = 0.0
    """A retry waits until then."""
    done: Held | None = None
    """The delivery of which an ack was answered: nothing may come after it."""
    gone: Held | None = None
    """The delivery that was rejected, or nacked for the last time: it is a dead letter."""
    possible_acks: set[str] = field(default_factory=set)
    """Receipts that were acked, or perhaps were."""
    reasons: set[str] = field(default_factory=set)
    """Those with which somebody rejected it, or tried to."""

    # What happened

    def hand(self, held: Held, deliveries_max: int) -> None:
        self.note_receipt(held)
        self._check_settled(held)
        self._check_alone_in_flight(held)
        self._check_number(held, deliveries_max)
        if held.at < self.not_before - SLACK_SECONDS:
            raise Violation(f"§6: {held} came {self.not_before - held.at:.3f} s before its retry was due")
        self.deliveries.append(held)
        self.attempt_least = max(self.attempt_least, held.attempt + 1)

    def note_receipt(self, held: Held) -> None:
        if held.receipt in self.receipts:
            raise Violation(f"G7: {held} was handed out before")
        self.receipts[held.receipt] = held

    def begin_word(self, held: Held) -> None:
        """Somebody says what becomes of it: the lease may end at any moment from now on."""
        held.is_open = False

    def begin_ack(self, held: Held) -> None:
        self.begin_word(held)
        self.possible_acks.add(held.receipt)

    def ack(self, held: Held, begun_at: float) -> None:
        """It was answered that this is done."""
        self._check_good(held, begun_at)
        held.is_acked, self.done = True, held

    def refuse_ack(self, held: Held, stood: bool, now: float) -> None:
        """It was answered that the receipt is stale."""
        if held.is_acked:
            raise Violation(f"§6: {held} was acked, and an ack of it repeated is refused")
        self.check_may_be_stale(held, stood, now)
        self.possible_acks.discard(held.receipt)

    def nack(self, held: Held, begun_at: float, delay: float | None, deliveries_max: int) -> None:
        self._check_good(held, begun_at)
        if held.attempt == deliveries_max:
            self.gone = held
        else:
            self.not_before = begun_at + (backoff(held.attempt) if delay is None else delay)

    def reject(self, held: Held, begun_at: float) -> None:
        self._check_good(held, begun_at)
        self.gone = held

    def may_be_given_back(self, held: Held) -> None:
        """Uncounted: it comes again with the same number."""
        held.is_open = False
        if not held.is_acked:
            self.may_not_count(held)

    def may_not_count(self, held: Held) -> None:
        if self.attempt_least == held.attempt + 1:
            self.attempt_least = held.attempt

    def begin_extension(self, held: Held, begun_at: float, seconds: float) -> None:
        least = begun_at + seconds - ROUNDING_SECONDS
        held.until_least, held.until_most = min(held.until_least, least), math.inf

    def extend(self, held: Held, begun_at: float, seconds: float, until_most: float) -> None:
        self._check_good(held, begun_at)
        held.until_least, held.until_most = begun_at + seconds - ROUNDING_SECONDS, until_most

    def forget_times(self) -> None:
        """The clock jumped while the broker was away: leases and waits may be shorter or longer than was said."""
        self.not_before = 0.0
        for held in self.receipts.values():
            held.until_least, held.until_most = held.at, math.inf

    def forget_promises(self) -> None:
        """The power failed."""
        self.forget_times()
        self.attempt_least, self.done, self.gone = 1, None, None
        for held in self.receipts.values():
            held.is_open = held.is_acked = False
        self.deliveries = []

    # What must hold

    def _check_settled(self, held: Held) -> None:
        for end, word in ((self.done, "acked"), (self.gone, "given up")):
            if end is not None and held.attempt >= end.attempt:
                raise Violation(f"G6: {end} was {word}, and now there is {held}")

    def _check_alone_in_flight(self, held: Held) -> None:
        for other in self.deliveries:
            if other.is_open and held.attempt >= other.attempt and held.at < other.stands_until:
                raise Violation(f"G7: {held}, while {other} stands until {other.stands_until:.3f} at least")

    def _check_number(self, held: Held, deliveries_max: int) -> None:
        if deliveries_max and held.attempt > deliveries_max:
            raise Violation(f"§6: {held} is delivered more than {deliveries_max} times")
        if held.attempt < self.attempt_least:
            raise Violation(f"§6: {held} has a number below {self.attempt_least}")

    def _check_good(self, held: Held, begun_at: float) -> None:
        """A receipt was accepted: is it possible that it was good?"""
        if held.is_acked:
            return
        if begun_at > held.until_most + SLACK_SECONDS:
            raise Violation(f"G6: {held} was settled from {begun_at:.3f} on, and ended at {held.until_most:.3f}")
        later = [other for other in self.deliveries if other.attempt > held.attempt and other.at < begun_at]
        if later:
            raise Violation(f"G6: {held} was settled at {begun_at:.3f}, after {later[-1]}")

    def check_may_be_stale(self, held: Held, stood: bool, now: float) -> None:
        """`stood`: nothing was said of it before, and nothing put it in doubt."""
        if stood and now < held.stands_until:
            raise Violation(f"§6: {held} is called stale at {now:.3f}; it stands until {held.stands_until:.3f}")
