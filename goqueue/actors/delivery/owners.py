"""Groups on a partition: where each begins, who owns the partition, and consumers that leave or are replaced.

The register knows which partitions had a ledger of the group. Where such a ledger is missing, the group begins at
the earliest offset: that repeats messages and skips none (G5). `offsets.json` is not used. It does not name the
topic's UUID, and it follows a reset seconds later, so its offset may lie behind messages that are not done. The
broker logs that offset, and an operator may reset the group to it.
"""

import logging
from dataclasses import dataclass

import trio

from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.repair import Mending
from goqueue.actors.delivery.requests import (
    AssignPartition,
    AttachGroup,
    ForgetGroup,
    LedgerHolder,
    ListLedgers,
    ReleaseMember,
    ReplaceMember,
)
from goqueue.actors.delivery.view import start_in
from goqueue.actors.delivery.waiting import Waiters
from goqueue.actors.delivery.writing import LedgerWriter
from goqueue.actors.runtime.handlers import answers, defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.parts import PartHost, answer
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.groups.start import may_miss, parse_start
from goqueue.environment import WallClock
from goqueue.storage.directory.namedoffsets import shown_offset
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.ledgers import LostProgress

logger = logging.getLogger("goqueue.ledgers")


@dataclass(eq=False, slots=True)
class GroupOwners:
    """A part of a partition."""

    ledgers: Ledgers
    log: Log
    host: PartHost
    partition: TopicPartition
    volume: Volume
    clock: WallClock
    writer: LedgerWriter
    waiters: Waiters
    mending: Mending
    counts: GroupCounts

    @defers(AttachGroup)
    async def attach(self, message: AttachGroup, reply: Reply[None]) -> None:
        here = await self._found_or_begun(message)
        self.ledgers.change_settings(here, message.settings, message.group_settings)
        here.listener = message.listener
        here.listener.hint()  # of what was written before
        here.tenure.is_shared, here.is_stream = message.is_shared, message.is_stream
        self._assign(here, message.member, message.generation)
        if here.ledger.next_dead_letters(1) or here.ledger.transfer_under_way is not None:
            self.writer.report_dead_letters(here)
        self.mending.take_up(here)
        # The start is durable before the answer: after a power loss `latest` would be a later offset. The earliest
        # offset stays the same, so this does not wait for a sync: it is durable soon, with what follows it.
        if may_miss(message.start):
            self.host.background(answer, reply, self.ledgers.commit)
        else:
            reply.resolve(None)

    async def _found_or_begun(self, message: AttachGroup) -> GroupHere:
        if not self.ledgers.is_open:
            await self.ledgers.open(self.log)
            self.host.background(self.ledgers.keep, endless=True)
        here = self.ledgers.groups.get(message.group)
        if here is not None and here.written.group_id == message.group_id:
            return here
        return await self._begun(message)

    async def _begun(self, message: AttachGroup) -> GroupHere:
        """A new ledger for this group. It replaces that of a deleted group of this name."""
        log, ledgers = self.log, self.ledgers
        offset, lost = await start_in(log, parse_start(message.start)), None
        is_known = message.group in ledgers.groups
        if message.is_expected:
            offset, lost = log.log_start, await self._tell_lost(message)
        elif not is_known and ledgers.is_doubtful and offset > log.log_start:
            logger.warning("group %s may have been here and was lost: it begins at the earliest", message.group)
            offset, lost = log.log_start, LostProgress(self.clock.now())
        self.counts.ledgers_lost += lost is not None
        return ledgers.begin(
            message.group,
            message.group_id,
            message.settings,
            offset,
            group_settings=message.group_settings,
            lost=lost,
        )

    async def _tell_lost(self, message: AttachGroup) -> LostProgress:
        data = self.log.directory.rsplit("/", 3)[0]
        shown = await shown_offset(self.volume, data, message.group, *self.partition)
        logger.warning(
            "the ledger of group %s on %s is lost: the group begins at offset %d, and messages come again; %s",
            message.group,
            self.partition.label,
            self.log.log_start,
            "where it stood is not known" if shown is None else f"it was last shown at offset {shown}",
        )
        return LostProgress(self.clock.now(), shown)

    @answers(ListLedgers)
    async def list_ledgers(self, _: ListLedgers) -> tuple[LedgerHolder, ...]:
        return self.ledgers.holders()

    @answers(AssignPartition)
    async def assign(self, message: AssignPartition) -> None:
        self._assign(self.ledgers.find(message.group), message.member, message.generation)

    def _assign(self, here: GroupHere, member: str | None, generation: int) -> None:
        here.assign(member, generation)
        self.waiters.let_go(here.name)

    @defers(ForgetGroup)
    async def forget(self, message: ForgetGroup, reply: Reply[None]) -> None:
        here = self.ledgers.groups.get(message.group)
        if here is None or here.written.group_id != message.group_id:
            reply.resolve(None)
            return
        self.ledgers.forget(here)
        self.waiters.let_go(here.name)
        self.host.background(answer, reply, self.ledgers.commit)

    @answers(ReleaseMember)
    async def release_member(self, message: ReleaseMember) -> None:
        here, now = self.ledgers.find(message.group), trio.current_time()
        if message.has_left:
            self._send_away(here, message)
        released = here.ledger.release_member(now, message.member)
        if message.keeps_place:  # the next consumer of the member is another one, as this one may have been
            own = here.takers.own(message.member, message.instance, here.ledger.deliveries_to(message.member))
            released = [each for each in released if each.nonce in own]
        here.takers.forget(message.member)
        self.writer.write(here, released, now)

    def _send_away(self, here: GroupHere, left: ReleaseMember) -> None:
        here.note_gone(left.member)
        here.askers.forget(left.member)
        here.tenure.note_left(left.member, left.instance, trio.current_time(), keeps_place=left.keeps_place)
        self.waiters.let_go(here.name, left.member)

    @answers(ReplaceMember)
    async def replace_member(self, message: ReplaceMember) -> None:
        here, now = self.ledgers.find(message.group), trio.current_time()
        here.note_gone(message.member)
        here.tenure.note_replaced(message.member, message.before, message.instance, now)
        self.waiters.let_go(here.name, message.member)
        here.takers.forget(message.member)
        lost = here.ledger.expire_member(message.member)
        self.writer.write(here, lost, now)
        self.counts.of[message.group].note_endings(lost)
