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
from goqueue.actors.runtime.parts import refusing
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.ledger.attempts import AttemptRuns
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.settlements import Action, decided_together
from goqueue.environment import WallClock
from goqueue.errors import DiskFull
from goqueue.types import Microseconds


class Asked(NamedTuple):
    message: SettleRuns
    reply: Reply[AttemptRuns]


class Decided(NamedTuple):
    """A settlement that is not written yet; without an entry it changes nothing."""

    here: GroupHere
    entry: Entry | None
    stale: AttemptRuns
    reply: Reply[AttemptRuns]
    nonce: int
    acks_since: Microseconds | None
    """When the messages were delivered, if they are acked."""


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
        self._gathered.append(Asked(message, reply))

    def settle_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        for portion in decided_together(gathered, lambda asked: asked.message):
            self._settle(portion)

    def _settle(self, portion: Sequence[Asked]) -> None:
        now, decided = trio.current_time(), list[Decided]()
        for asked in portion:
            with refusing(asked.reply):
                decided.append(self._decide(asked, now))
        changes = dict[GroupHere, list[Entry]]()
        for each in decided:
            if each.entry is not None:
                changes.setdefault(each.here, []).append(each.entry)
        self.writer.write_then(changes, now, partial(_answer, decided))
        self._note_acked(decided)

    def _decide(self, asked: Asked, now: float) -> Decided:
        message, here = asked.message, self.ledgers.find(asked.message.group)
        acks_since = here.ledger.delivered_at(message.nonce) if message.action is Action.ACK else None
        return Decided(here, *here.ledger.settle(now, message), asked.reply, message.nonce, acks_since)

    def _note_acked(self, decided: Sequence[Decided]) -> None:
        """One duration for each delivery of which the last message was acked just now."""
        wall = self.clock.now()
        for here, _, _, _, nonce, since in decided:
            if since is not None and here.ledger.delivered_at(nonce) is None:
                self.counts.of[here.name].ack_seconds.add(max(0, wall - since) / 1_000_000)


def _answer(decided: Sequence[Decided], failure: DiskFull | None) -> None:
    for each in decided:
        if failure is None or each.entry is None:
            each.reply.resolve(each.stale)
        else:
            each.reply.fail(failure)
