"""Questions and orders of operators about a group on a partition: views, facts, resets, damage that is given up."""

from dataclasses import dataclass

import trio

from goqueue.actors.delivery.facts import PendingDelays, gather_facts
from goqueue.actors.delivery.ledgers import Ledgers
from goqueue.actors.delivery.repair import Mending
from goqueue.actors.delivery.requests import (
    DescribeLedger,
    GatherLedgerFacts,
    LedgerFacts,
    LedgerView,
    ResetLedger,
    SkipDamaged,
    SkippedHere,
)
from goqueue.actors.delivery.view import LogMemory, start_in, view_of
from goqueue.actors.delivery.writing import LedgerWriter
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.parts import PartHost, answer
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.groups.start import parse_start
from goqueue.environment import WallClock
from goqueue.storage.log.log import Log
from goqueue.types import Offset


@dataclass(eq=False, slots=True)
class LedgerQuestions:
    """A part of a partition."""

    ledgers: Ledgers
    log: Log
    host: PartHost
    partition: TopicPartition
    clock: WallClock
    writer: LedgerWriter
    mending: Mending
    delays: PendingDelays

    @defers(DescribeLedger)
    async def describe(self, message: DescribeLedger, reply: Reply[LedgerView | None]) -> None:
        here = self.ledgers.groups.get(message.group)
        if here is None:
            reply.resolve(None)
        else:
            memory, hidden = LogMemory(self.log), self.delays.hidden
            self.host.background(answer, reply, view_of, here, memory, self.clock, hidden)

    @defers(GatherLedgerFacts)
    async def gather_facts(self, message: GatherLedgerFacts, reply: Reply[LedgerFacts | None]) -> None:
        here = self.ledgers.groups.get(message.group)
        if here is None:
            reply.resolve(None)
        else:
            self.host.background(
                answer, reply, gather_facts, here, self.log, self.partition, self.clock, self.delays
            )

    @defers(ResetLedger)
    async def reset(self, message: ResetLedger, reply: Reply[tuple[Offset, Offset]]) -> None:
        here = self.ledgers.find(message.group)
        offsets = here.ledger.committed, await start_in(self.log, parse_start(message.start))
        if message.dry_run:
            reply.resolve(offsets)
        else:
            self.ledgers.forgive_loss(here)
            self.writer.write(here, [here.ledger.reset(offsets[1])], trio.current_time())
            self.host.background(answer, reply, self._commit_and_say, offsets)

    async def _commit_and_say(self, offsets: tuple[Offset, Offset]) -> tuple[Offset, Offset]:
        await self.ledgers.commit()
        return offsets

    @defers(SkipDamaged)
    async def skip_damaged(self, message: SkipDamaged, reply: Reply[SkippedHere]) -> None:
        here = self.ledgers.find(message.group)
        self.host.background(answer, reply, self.mending.skip, here, message)
