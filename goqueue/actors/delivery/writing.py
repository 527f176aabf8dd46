"""Writes the ledgers' entries and spreads their news: waiters are woken, and groups hear of their dead letters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import DeadLettersWait
from goqueue.actors.delivery.waiting import Waiters
from goqueue.actors.runtime.parts import PartHost
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.ledger.entries import Entry, leaves


@dataclass(eq=False, slots=True)
class LedgerWriter:
    ledgers: Ledgers
    waiters: Waiters
    partition: TopicPartition
    host: PartHost

    def write(self, here: GroupHere, entries: Sequence[Entry], now: float) -> None:
        """Journal the entries and apply them. `DiskFull` changes nothing. `now` is when they were decided."""
        if entries:
            self.ledgers.write(here, entries, now)
            self.spread(here, entries)

    def spread(self, here: GroupHere, entries: Iterable[Entry]) -> None:
        """These entries were written: wake members that may find messages, and report dead letters."""
        self.waiters.call_next(here)
        if any(map(leaves, entries)):
            self.report_dead_letters(here)

    def report_dead_letters(self, here: GroupHere) -> None:
        if here.listener is not None:
            here.listener.news(self.host.name, DeadLettersWait(*self.partition))
