"""The leases of one delivery: one for all of its messages, and one for each part that was extended by itself.

However many there are, the leases of a few messages are found without a look at the others: a map leads from each
message of a small lease that came later to that lease. The first and the large ones are always looked at; these are
few. The map may be outdated, when a message was settled since, or came under a large lease: then nothing is found.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns, Attempts, count, offsets_of
from goqueue.core.offsetset import Run
from goqueue.types import Offset

SMALL = 64


@dataclass(slots=True, eq=False)
class Lease:
    deadline: float
    visibility: float
    out: Attempts = field(default_factory=Attempts)
    nonce: int = 0
    """The nonce of its delivery, once that is handed out."""


class DeliveryLeases:
    __slots__ = ("_all", "_looked_at", "_small", "size")

    def __init__(self, leases: Iterable[Lease] = ()) -> None:
        self._all: dict[Lease, None] = {}
        self._looked_at: dict[Lease, None] = {}
        self._small: dict[Offset, Lease] = {}
        self.size = 0
        """The number of messages in flight under all of them."""
        for lease in leases:
            self.add(lease)

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, lease: Lease) -> None:
        size = len(lease.out)
        self.size += size
        if not self._all or size > SMALL:
            self._looked_at[lease] = None
        else:
            for offsets in lease.out.values():
                self._small.update(dict.fromkeys(offsets.offsets(), lease))
        self._all[lease] = None

    def under(self, runs: Collection[AttemptRun | Run]) -> Collection[Lease]:
        """All leases of these messages; others may be among them. Runs may be forged."""
        if len(self._looked_at) == len(self._all) or count(runs) > SMALL or any(run[1] < run[0] for run in runs):
            return self._all
        offsets = [offset for run in runs for offset in range(run[0], run[1] + 1)]
        small = [self._small[offset] for offset in offsets if offset in self._small]
        return dict.fromkeys([*self._looked_at, *small])

    def take(self, runs: AttemptRuns | None, ended: Callable[[Lease], None]) -> Attempts:
        """Remove and return these messages, or all. `ended` hears of each lease that has no more messages."""
        taken, offsets = Attempts(), None if runs is None else offsets_of(runs)
        for lease in list(self._all if runs is None else self.under(runs)):
            part = lease.out.take_everything() if offsets is None else lease.out.take(offsets)
            if taken:
                taken.merge(part)
            else:
                taken = part
            self._drop_if_empty(lease, ended)
        self.size -= len(taken)
        return taken

    def discard(self, run: AttemptRun, ended: Callable[[Lease], None]) -> int:
        """As `take`, for one run; returns how many messages there were."""
        found = 0
        for lease in list(self.under((run,))):
            found += lease.out.discard(run)
            if not lease.out:
                self._drop_if_empty(lease, ended)
        self.size -= found
        return found

    def take_within(self, first: Offset, last: Offset, ended: Callable[[Lease], None]) -> int:
        """Remove the messages of a range, however long; returns how many there were."""
        before = self.size
        for lease in list(self._all):
            self.size -= count(run for _, run in lease.out.take_range(first, last))
            self._drop_if_empty(lease, ended)
        return before - self.size

    def _drop_if_empty(self, lease: Lease, ended: Callable[[Lease], None]) -> None:
        if not lease.out and lease in self._all:  # the map may lead to one that is gone
            del self._all[lease]
            ended(lease)
            self._looked_at.pop(lease, None)
            if not self._all:
                self._small.clear()
