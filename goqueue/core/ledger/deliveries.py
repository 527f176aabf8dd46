"""Deliveries under way: which member holds what, until when, and which receipts are good (G6, G7).

A delivery is what one member received at once, under one nonce. It has one lease for all of its messages; a part
that is extended gets a lease of its own. A receipt is good while the message is in flight under its nonce, on the
attempt that it names, and the lease has not ended. Settlements are remembered with the delivery, and for the last
256 deliveries that ended, so that the same settlement repeated after a lost answer succeeds. A different one finds
a stale receipt.

Some members prefetch, and tell which messages they have begun. What such a member has not begun when its delivery
ends without a word was not delivered: nobody has seen it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from goqueue.core.deadlines import Deadlines
from goqueue.core.ledger.attempts import (
    AttemptRun,
    AttemptRuns,
    Attempts,
    Standing,
    count,
    joined,
    without,
)
from goqueue.core.ledger.leases import DeliveryLeases, Lease
from goqueue.core.ledger.settlements import SettledDeliveries, Settlement, Settlements
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.types import Microseconds, Offset

_MILLION = 1_000_000
StandingSet: TypeAlias = tuple[Standing, OffsetSet]


@dataclass(slots=True, eq=False)
class Delivery:
    nonce: int
    member: str
    wall: Microseconds
    is_alone: bool
    leases: DeliveryLeases
    settled: Settlements = field(default_factory=Settlements)
    begun: OffsetSet | None = None
    """The messages that the member has begun; settled ones may be among them. None: it does not tell, and all
    count."""

    @property
    def size(self) -> int:
        """How many of its messages are still in flight."""
        return self.leases.size

    def counted(self, lease: Lease) -> list[StandingSet]:
        """The messages of a lease that count as delivered."""
        items = lease.out.items()
        if self.begun is None:
            return list(items)
        return _some_of((standing, offsets.common(self.begun)) for standing, offsets in items)

    def not_begun(self, lease: Lease) -> list[StandingSet]:
        """The others."""
        if self.begun is None:
            return []
        return _some_of((standing, offsets.without(self.begun)) for standing, offsets in lease.out.items())


@dataclass(slots=True)
class Held:
    """What one member holds: one message that was delivered alone, or any others."""

    nonces: dict[int, None] = field(default_factory=dict)
    count: int = 0
    is_alone: bool = False


class ReceiptVerdict(NamedTuple):
    """Which receipts are good, each message named once, and which are stale, as they were handed in."""

    good: AttemptRuns
    stale: AttemptRuns


class Deliveries:
    def __init__(self) -> None:
        self._deliveries: dict[int, Delivery] = {}
        self._held: dict[str, Held] = {}
        self._settled = SettledDeliveries()
        self.deadlines: Deadlines[Lease] = Deadlines()
        """The ends of the leases."""

    # What is under way

    @property
    def count(self) -> int:
        """Messages in flight."""
        return sum(held.count for held in self._held.values())

    def __contains__(self, nonce: int) -> bool:
        return nonce in self._deliveries or nonce in self._settled

    def get(self, nonce: int) -> Delivery | None:
        return self._deliveries.get(nonce)

    def held_by(self, member: str) -> Held:
        return self._held.get(member) or Held()

    def leases_of(self, member: str) -> Iterator[tuple[Delivery, Lease]]:
        for nonce in self.held_by(member).nonces:
            delivery = self._deliveries[nonce]
            yield from ((delivery, lease) for lease in delivery.leases)

    def counts(self) -> dict[str, int]:
        """Messages in flight by member."""
        return {member: held.count for member, held in self._held.items()}

    def runs(self) -> Iterator[Run]:
        """All messages in flight."""
        return (run for _, offsets in self.standing_sets() for run in offsets.runs())

    def standing_sets(self) -> Iterator[tuple[Standing, OffsetSet]]:
        leases = (lease for delivery in self._deliveries.values() for lease in delivery.leases)
        return (item for lease in leases for item in lease.out.items())

    def oldest(self) -> Delivery | None:
        """The delivery under way that began first."""
        return next(iter(self._deliveries.values()), None)

    def held_alone(self) -> frozenset[str]:
        """Members that hold a message that was delivered alone."""
        return frozenset(member for member, held in self._held.items() if held.is_alone)

    def due(self, now: float) -> list[tuple[Delivery, Lease]]:
        """The leases whose time has come, earliest first."""
        return [(self._deliveries[lease.nonce], lease) for lease in self.deadlines.passed(now)]

    def count_not_begun(self) -> int:
        """How many messages in flight their members have not begun."""
        telling = [delivery for delivery in self._deliveries.values() if delivery.begun is not None]
        waiting = [item for delivery in telling for lease in delivery.leases for item in delivery.not_begun(lease)]
        return sum(len(offsets) for _, offsets in waiting)

    # Receipts

    def judge(
        self, now: float, nonce: int, runs: Iterable[AttemptRun], repeats: Settlement | None = None
    ) -> ReceiptVerdict:
        """A message that was settled as `repeats` under this nonce before is neither stale nor good again."""
        runs = tuple(runs)
        leases = self._standing(now, nonce, runs)
        if _are_all_out(leases, runs):  # as most often
            return ReceiptVerdict(joined(runs), ())
        return self._judge_each(runs, leases, self._settled_so(nonce, repeats))

    def _judge_each(self, runs: AttemptRuns, leases: Sequence[Lease], settled: Attempts) -> ReceiptVerdict:
        good, stale = list[AttemptRun](), list[AttemptRun]()
        for run in runs:
            found = [piece for lease in leases for piece in lease.out.find(run)]
            good += [AttemptRun(*piece, run.attempt) for piece in found]
            stale += without(run, found + settled.find(run))
        return ReceiptVerdict(joined(good), tuple(stale))

    def out(self, now: float, nonce: int) -> AttemptRuns:
        """All messages under this nonce whose receipts are good."""
        return joined(run for lease in self._standing(now, nonce) for run in lease.out.runs())

    def are_out(self, now: float, nonce: int, size: int) -> bool:
        """Whether the receipts of a whole delivery of `size` messages are good."""
        delivery = self._deliveries.get(nonce)
        return delivery is not None and delivery.size == size == sum(
            len(lease.out) for lease in self._standing(now, nonce)
        )

    def were_acked(self, nonce: int, size: int) -> bool:
        return 0 < size == len(self._settled_so(nonce, Settlement.ACKED))

    def offsets_under(self, nonce: int) -> Iterator[Offset]:
        """All messages in flight under this nonce, even if their lease has ended."""
        sets = [offsets for lease in self._deliveries[nonce].leases for offsets in lease.out.values()]
        return chain.from_iterable([offsets.offsets() for offsets in sets])

    def not_begun(self, nonce: int, runs: AttemptRuns) -> AttemptRuns:
        """Those of these messages in flight that the member has not begun; none if it does not tell."""
        delivery = self._deliveries.get(nonce)
        if delivery is None or delivery.begun is None:
            return ()
        begun = delivery.begun
        if not begun.has_any(runs):  # as most often
            return runs
        return tuple(rest for run in runs for rest in without(run, list(begun.runs(run.first, run.last))))

    def _standing(self, now: float, nonce: int, runs: AttemptRuns | None = None) -> Sequence[Lease]:
        """The leases that have not ended: all of the delivery, or those that may cover these messages."""
        delivery = self._deliveries.get(nonce)
        if delivery is None:
            return ()
        leases = delivery.leases if runs is None else delivery.leases.under(runs)
        return [lease for lease in leases if lease.deadline > now]

    def _settled_so(self, nonce: int, kind: Settlement | None) -> Attempts:
        delivery = self._deliveries.get(nonce)
        settled = delivery.settled if delivery is not None else self._settled.get(nonce)
        return Attempts() if settled is None or kind is None else settled.of(kind)

    # Changes

    def hand_out(self, delivery: Delivery) -> None:
        assert delivery.nonce not in self, "a nonce names one delivery"
        self._deliveries[delivery.nonce] = delivery
        held = self._held.setdefault(delivery.member, Held())
        assert not held.is_alone, "whoever holds a message alone is given nothing else"
        assert not held.nonces or not delivery.is_alone, "a message is handed out alone to who holds nothing"
        held.nonces[delivery.nonce] = None
        held.count += delivery.size
        held.is_alone = delivery.is_alone
        for lease in delivery.leases:
            self._note_deadline(delivery, lease)

    def take(self, nonce: int, runs: AttemptRuns | None, settled: Settlement | None = None) -> Attempts:
        """These, or all of the delivery, are no longer in flight: they were settled this way, or their lease has
        ended."""
        taken = self._take(nonce, runs)
        assert runs is None or len(taken) == count(runs), f"not all of {runs} were out"
        if settled is not None:
            self._deliveries[nonce].settled.note(settled, taken)
        self._close_if_empty(nonce)
        return taken

    def take_run(self, nonce: int, run: AttemptRun, settled: Settlement) -> None:
        """As `take`, for one run that was settled: without sets, as most settlements are for one message."""
        delivery = self._deliveries[nonce]
        taken = delivery.leases.discard(run, self.deadlines.drop)
        assert taken == run.last - run.first + 1, f"not all of {run} were out"
        self._held[delivery.member].count -= taken
        delivery.settled.note_run(settled, run)
        if not delivery.leases.size:
            self._close_if_empty(nonce)

    def take_within(self, first: Offset, last: Offset) -> None:
        """Remove the messages of this range, whichever member holds them. Looks at every delivery, so only for rare
        events."""
        for nonce, delivery in list(self._deliveries.items()):
            taken = delivery.leases.take_within(first, last, self.deadlines.drop)
            self._held[delivery.member].count -= taken
            self._close_if_empty(nonce)

    def note_begun(self, nonce: int, runs: AttemptRuns) -> None:
        begun = self._deliveries[nonce].begun
        assert begun is not None, f"the member of delivery {nonce:x} does not tell"
        for first, last, _ in runs:
            begun.add(first, last)

    def extend(self, nonce: int, runs: AttemptRuns | None, visibility: float, now: float) -> None:
        """Extend the lease of these, or of all in flight, to `visibility` seconds from now."""
        delivery = self._deliveries[nonce]
        extended = Lease(now + visibility, visibility)
        extended.out.merge(self._take(nonce, runs))
        self._held[delivery.member].count += len(extended.out)
        delivery.leases.add(extended)
        self._note_deadline(delivery, extended)

    def _take(self, nonce: int, runs: AttemptRuns | None) -> Attempts:
        """Take these, or all that are in flight."""
        delivery = self._deliveries[nonce]
        taken = delivery.leases.take(runs, self.deadlines.drop)
        self._held[delivery.member].count -= len(taken)
        return taken

    def _note_deadline(self, delivery: Delivery, lease: Lease) -> None:
        lease.nonce = delivery.nonce
        if lease.out:  # a lease without messages would never end
            self.deadlines.note(lease, lease.deadline)

    def _close_if_empty(self, nonce: int) -> None:
        delivery = self._deliveries[nonce]
        if delivery.leases:
            return
        del self._deliveries[nonce]
        held = self._held[delivery.member]
        del held.nonces[nonce]
        if not held.nonces:
            del self._held[delivery.member]
        if delivery.settled:
            self._settled.remember(nonce, delivery.settled)

    # Written down

    def to_plain(self, now: float) -> list[Any]:
        """The remaining time of each lease is in microseconds."""
        deliveries = [_delivery_to_plain(delivery, now) for delivery in self._deliveries.values()]
        settled = [[nonce, some.of(Settlement.ACKED).to_plain()] for nonce, some in self._settled.items()]
        others = [[nonce, plain] for nonce, some in self._settled.items() if (plain := some.others_to_plain())]
        return [deliveries, settled, others]

    @classmethod
    def from_plain(cls, plain: Any, now: float) -> "Deliveries":
        deliveries = cls()
        for delivery in plain[0]:
            deliveries.hand_out(_delivery_from_plain(delivery, now))
        others = dict(plain[2]) if len(plain) > 2 else {}
        for nonce, acked in plain[1]:
            deliveries._settled.remember(nonce, Settlements.from_plain(acked, others.get(nonce, ())))
        return deliveries


def _some_of(sets: Iterable[StandingSet]) -> list[StandingSet]:
    return [item for item in sets if item[1]]


def _are_all_out(leases: Sequence[Lease], runs: AttemptRuns) -> bool:
    """Whether all of these are in flight. Runs may be forged: False if they name more messages than there are, even
    2 ** 60, or nothing."""
    if len(runs) == 1:  # as with one message at a time
        first, last, _ = run = runs[0]
        return 0 <= last - first == sum([lease.out.count_of_run(run) for lease in leases]) - 1
    wanted, found = count(runs), 0
    if wanted > sum([len(lease.out) for lease in leases]) or any(run.last < run.first for run in runs):
        return False
    for lease in leases:
        found += lease.out.count_of(runs)
    return found == wanted


def _delivery_to_plain(delivery: Delivery, now: float) -> list[Any]:
    leases = [
        [round((lease.deadline - now) * _MILLION), lease.visibility, lease.out.to_plain()]
        for lease in delivery.leases
    ]
    return [
        delivery.nonce,
        delivery.member,
        delivery.wall,
        delivery.is_alone,
        leases,
        delivery.settled.of(Settlement.ACKED).to_plain(),
        delivery.settled.others_to_plain(),
        *([] if delivery.begun is None else [delivery.begun.to_plain()]),
    ]


def _delivery_from_plain(plain: Any, now: float) -> Delivery:
    nonce, member, wall, is_alone, leases, acked, *later = plain
    standing = [
        Lease(now + left / _MILLION, visibility, Attempts.from_plain(out)) for left, visibility, out in leases
    ]
    settled = Settlements.from_plain(acked, later[0] if later else ())
    begun = OffsetSet.from_plain(later[1]) if len(later) > 1 else None
    return Delivery(nonce, member, wall, is_alone, DeliveryLeases(standing), settled, begun)
