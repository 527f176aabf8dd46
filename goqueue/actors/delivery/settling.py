"""Settlements: what a turn has of them in a row is decided together, journaled in one write, and then answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import trio

from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import SettleRuns
from goqueue.actors.delivery.writing import LedgerWriter
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.ledger.attempts import AttemptRuns
from goqueue.core.ledger.deliveries import Delivery
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.settlements import Action, decided_together
from goqueue.environment import WallClock
from goqueue.errors import DiskFull, GoQueueError


class Asked(NamedTuple):
    message: SettleRuns
    reply: Reply[AttemptRuns]


class Decided(NamedTuple):
    """A settlement that is not written yet; without an entry it changes nothing."""

    here: GroupHere
    entry: Entry | None
    stale: AttemptRuns
    reply: Reply[AttemptRuns]
    acked: Delivery | None
    """The delivery, if messages of it are acked."""


@dataclass(eq=False, slots=True)
class GroupSettling:
    """A part of a partition, which calls `settle_gathered` before anything else looks at the ledgers."""

    ledgers: Ledgers
    writer: LedgerWriter
    clock: WallClock
    counts: GroupCounts
    _gathered: list[Asked] = field(default_factory=list)

    @defers(SettleRuns)
    async def gather(self, message: SettleRuns, reply: Reply[AttemptRuns]) -> None:
        self.gather_at_once(message, reply)

    def gather_at_once(self, message: SettleRuns, reply: Reply[AttemptRuns]) -> None:
        self._gathered.append(Asked(message, reply))

    def settle_gathered(self) -> None:
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, []
        for portion in decided_together(gathered, lambda asked: asked.message):
            self._settle(portion)

    def _settle(self, portion: Sequence[Asked]) -> None:
        now, decided = trio.current_time(), list[Decided]()
        for asked in portion:
            try:
                decided.append(self._decide(asked, now))
            except GoQueueError as refusal:  # for every settlement: without a context manager
                asked.reply.fail(refusal)
        changes = dict[GroupHere, list[Entry]]()
        for each in decided:
            if each.entry is not None:
                changes.setdefault(each.here, []).append(each.entry)
        self.writer.write_then(changes, now, partial(_answer, decided))
        self._note_acked(decided)

    def _decide(self, asked: Asked, now: float) -> Decided:
        message, reply = asked
        here = self.ledgers.find(message.group)
        acked = here.ledger.delivery(message.nonce) if message.action is Action.ACK else None
        entry, stale = here.ledger.settle(now, message)
        return Decided(here, entry, stale, reply, acked)

    def _note_acked(self, decided: Sequence[Decided]) -> None:
        """One duration for each delivery of which the last message was acked just now."""
        for here, _, _, _, delivery in decided:
            if delivery is not None and not delivery.leases.size:
                self._note_ended(here, delivery)

    def _note_ended(self, here: GroupHere, delivery: Delivery) -> None:
        self.counts.of[here.name].ack_seconds.add(max(0, self.clock.now() - delivery.wall) / 1_000_000)


def _answer(decided: Sequence[Decided], failure: DiskFull | None) -> None:
    for each in decided:
        if failure is None or each.entry is None:
            each.reply.resolve(each.stale)
        else:
            each.reply.fail(failure)
