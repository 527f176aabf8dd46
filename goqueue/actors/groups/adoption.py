"""Adoption: at a start, groups that the ledgers of partitions name and the register lacks are restored (G13).

Every partition is asked once which groups have a ledger there. Lost groups are written to the register before any
group is started, so a consumer that joins finds the progress of its group. Generations above those that were given
out are reserved by the wall clock, since the register may have lost them.
"""

import logging
from typing import TypeAlias

from goqueue.actors.delivery.requests import LedgerHolder, ListLedgers
from goqueue.actors.metadata.requests import (
    NoteAdopted,
    NoteGeneration,
    NoteMended,
    ReadDamage,
    ReadLeaving,
    ReadRegister,
)
from goqueue.actors.runtime.concurrently import call_within, with_each
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.actors.topics.requests import FindPartitions, OutlineTopics, TopicOutline
from goqueue.core.groups.adoption import Adoption, HeldLedger, adoptions, settings_of
from goqueue.environment import WallClock
from goqueue.errors import GoQueueError

logger = logging.getLogger("goqueue.groups")

PATIENCE_SECONDS, HASTE_SECONDS = 5.0, 0.5
"""Time limits for a partition's answer: if the register is damaged, and if it seems to be sound."""


Place: TypeAlias = tuple[TopicOutline, int, ActorRef | GoQueueError]


class Adopter:
    def __init__(self, topics: ActorRef, register: ActorRef, clock: WallClock, counts: GroupCounts) -> None:
        self._topics = topics
        self._register = register
        self._clock = clock
        self._counts = counts

    async def run(self) -> None:
        """`UnknownFormat` when the register cannot be read."""
        is_damaged = await self._register.call(ReadDamage())
        known, leaving = await self._register.call(ReadRegister()), await self._register.call(ReadLeaving())
        ledgers = await self._ledgers(PATIENCE_SECONDS if is_damaged else HASTE_SECONDS)
        generation = self._clock.now() // 1_000_000
        for adoption in adoptions(known, leaving, ledgers, is_damaged=is_damaged):
            await self._adopt(adoption, generation)
        if is_damaged:
            for group in await self._register.call(ReadRegister()):
                await self._register.call(NoteGeneration(group.name, generation))
            await self._register.call(NoteMended(generation))

    async def _adopt(self, adoption: Adoption, generation: int) -> None:
        try:
            await self._register.call(NoteAdopted(adoption, generation))
        except GoQueueError as error:
            logger.warning("group %s cannot be adopted: %s", adoption.name, error.message)
        else:
            self._counts.adopted += 1
            logger.warning("adopted group %s", adoption)

    async def _ledgers(self, seconds: float) -> list[HeldLedger]:
        found, silent = list[HeldLedger](), list[str]()

        async def ask(attachment: Place) -> None:
            topic, number, ref = attachment
            try:
                if not isinstance(ref, ActorRef):
                    raise ref
                holders = await call_within(seconds, ref, ListLedgers())
            except GoQueueError as error:
                silent.append(f"{topic.name}/{number}: {error.message}")
            else:
                found.extend(_held(topic, number, holder) for holder in holders)

        await with_each(ask, await self._attached(seconds))
        if silent:
            logger.warning("%d partitions do not say which groups they have: %s", len(silent), silent[0])
        return found

    async def _attached(self, seconds: float) -> list[Place]:
        outline = await self._topics.call(OutlineTopics())
        numbers = [(topic, number) for topic in outline for number in range(topic.partitions)]
        question = FindPartitions([(topic.uuid, number) for topic, number in numbers])
        try:
            refs = await call_within(seconds, self._topics, question)
        except GoQueueError as error:
            refs = (error,) * len(numbers)
        return [(*each, ref) for each, ref in zip(numbers, refs, strict=True)]


def _held(topic: TopicOutline, number: int, holder: LedgerHolder) -> HeldLedger:
    settings = settings_of(holder.group_settings, holder.settings)
    return HeldLedger(holder.group, holder.group_id, settings, topic.name, topic.uuid, number, topic.partitions)
