"""Writes the ledgers' entries and spreads their news: waiters are woken, and dead letters are reported."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import DeadLettersWait
from goqueue.actors.delivery.waiting import Waiters
from goqueue.actors.runtime.parts import PartHost
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.ledger.entries import Entry, leaves
from goqueue.core.names import REDRIVE
from goqueue.errors import DiskFull


@dataclass(eq=False, slots=True)
class LedgerWriter:
    ledgers: Ledgers
    waiters: Waiters
    partition: TopicPartition
    host: PartHost
    dead_letters: ActorRef | None
    """Told of dead letters; None: nobody."""

    def write(self, here: GroupHere, entries: Sequence[Entry], now: float) -> None:
        """Journal the entries and apply them. `DiskFull` changes nothing. `now` is when they were decided."""
        if entries:
            self.ledgers.write(here, entries, now)
            self.spread(here, entries)

    def write_then(
        self, changes: Mapping[GroupHere, Sequence[Entry]], now: float, answer: Callable[[DiskFull | None], None]
    ) -> None:
        """The same for entries of several groups, in one write. `answer` is called as soon as they are journaled,
        or could not be: whoever waits goes on while they are applied here."""
        if not changes:
            answer(None)
            return
        try:
            written = self.ledgers.journal(changes)
        except DiskFull as failure:
            answer(failure)
            return
        answer(None)
        self.ledgers.apply(written, now)
        for here, entries in changes.items():
            self.spread(here, entries)

    def spread(self, here: GroupHere, entries: Iterable[Entry]) -> None:
        """These entries were written: wake members that may find messages, and report dead letters."""
        self.waiters.call_next(here)
        if any(map(leaves, entries)):
            self.report_dead_letters(here)

    def report_dead_letters(self, here: GroupHere) -> None:
        if self.dead_letters is not None and here.name != REDRIVE:  # a redrive transfers its own
            sender = f"{self.host.name} {here.name}"  # each group has a slot of its own
            self.dead_letters.news(sender, DeadLettersWait(here.name, *self.partition))
