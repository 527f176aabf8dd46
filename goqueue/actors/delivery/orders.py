"""Orders of operators about a group on a partition: resets, and damage that is given up."""

from dataclasses import dataclass

import trio

from goqueue.actors.delivery.ledgers import Ledgers
from goqueue.actors.delivery.repair import Mending
from goqueue.actors.delivery.requests import ResetLedger, SkipDamaged, SkippedHere
from goqueue.actors.delivery.view import start_in
from goqueue.actors.delivery.writing import LedgerWriter
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.parts import PartHost, answer
from goqueue.core.groups.start import parse_start
from goqueue.storage.log.log import Log
from goqueue.types import Offset


@dataclass(eq=False, slots=True)
class LedgerOrders:
    """A part of a partition."""

    ledgers: Ledgers
    log: Log
    host: PartHost
    writer: LedgerWriter
    mending: Mending

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
