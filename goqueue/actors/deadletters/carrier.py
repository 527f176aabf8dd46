"""Transfers dead letters to their topic, each exactly once (G5).

The partition journals the messages of a transfer and its sequence before they are sent. A step that a crash cuts
short is repeated from there: the dead-letter topic knows the sequence and answers a repeat with the first offset,
and only then the partition is told that they are done.

    take (journaled) ─► make the topic if need be ─► append, durably ─► confirm (journaled)

After an error it tries again: a full disk, a partition that is down, a topic that is deleted at this moment.
"""

import logging
from contextlib import suppress

import trio

from goqueue.actors.delivery.requests import (
    ConfirmDeadLetters,
    DeadLetter,
    DeadLetters,
    DeadLettersWait,
    TakeDeadLetters,
)
from goqueue.actors.partition.board import PartitionBoard
from goqueue.actors.partition.requests import Produce
from goqueue.actors.runtime.handlers import hears
from goqueue.actors.runtime.parts import PartHost
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import CreateTopic, FindPartition, FindPartitions, OutlineTopics, TopicOutline
from goqueue.core.groups.deadletter import Story, dead_letter
from goqueue.core.names import dead_letter_topic
from goqueue.core.settingstable import UNLIMITED
from goqueue.errors import GoQueueError, OutOfOrderSequence, RepeatTooOld, TopicExists, Unavailable, UnknownGroup
from goqueue.types import Acks

logger = logging.getLogger("goqueue.deadletters")

MESSAGES_MAX, BYTES_MAX = 500, 1024 * 1024
"""Limits of one transfer, so that one append and its memory stay small."""
ARRIVED_BEFORE = (RepeatTooOld, OutOfOrderSequence)
"""These errors mean that the transfer has arrived. A transfer begins when the one before it has arrived: where
later numbers are written, the earlier ones were. A ledger that lost entries repeats one that ended long ago."""
PAUSE_FIRST, PAUSE_MAX = 0.5, 30.0
"""The pause between two tries in seconds; it doubles up to the maximum."""


class DeadLetterCarrier:
    """A part of the node's `DeadLetterService`: it has a task for each group and partition with dead letters."""

    def __init__(self, topics: ActorRef, host: PartHost) -> None:
        self._topics = topics
        self._host = host
        self._under_way: set[DeadLettersWait] = set()
        self._called_again: set[DeadLettersWait] = set()

    async def look_for(self) -> None:
        """Find the dead letters that wait: whoever was told of them before may have crashed."""
        for topic in await self._topics.call(OutlineTopics()):
            wanted = FindPartitions([(topic.uuid, number) for number in range(topic.partitions)])
            for number, ref in enumerate(await self._topics.call(wanted)):
                board = ref.board if isinstance(ref, ActorRef) else None
                if isinstance(board, PartitionBoard):
                    for group in board.ledgers.groups_with_dead_letters():
                        self._call_for(DeadLettersWait(group, topic.name, number))

    @hears(DeadLettersWait)
    async def dead_letters_wait(self, _sender: str, news: DeadLettersWait) -> None:
        self._call_for(news)

    def _call_for(self, source: DeadLettersWait) -> None:
        if source in self._under_way:
            self._called_again.add(source)
        else:
            self._under_way.add(source)
            self._host.background(self._serve, source, endless=True)

    async def _serve(self, source: DeadLettersWait) -> None:
        pause, is_known = PAUSE_FIRST, False
        try:
            while True:
                self._called_again.discard(source)
                try:
                    await self._carry_all(source)
                except GoQueueError as error:
                    self._note_trouble(source, error, is_known)
                    await trio.sleep(pause)
                    pause, is_known = min(2 * pause, PAUSE_MAX), True
                    continue
                if source not in self._called_again:
                    return
        finally:
            self._under_way.discard(source)

    def _note_trouble(self, source: DeadLettersWait, error: GoQueueError, is_known: bool) -> None:
        if not is_known:
            logger.warning(
                "dead letters of group %s wait in partition %d of %s: %s; it is tried again",
                source.group,
                source.partition,
                source.topic,
                error.message,
            )

    async def _carry_all(self, source: DeadLettersWait) -> None:
        """Nothing is left to carry once the topic or the group is deleted."""
        topic = await outline_of(self._topics, source.topic)
        if topic is None:
            return
        ref = await self._topics.call(FindPartition(topic.uuid, source.partition))
        with suppress(UnknownGroup):
            while letters := await ref.call(TakeDeadLetters(source.group, MESSAGES_MAX, BYTES_MAX)):
                await self._append(source, topic, letters)
                await ref.call(ConfirmDeadLetters(source.group, letters.sequence))

    async def _append(self, source: DeadLettersWait, topic: TopicOutline, letters: DeadLetters) -> None:
        target = await self._dead_letter_partition(source, topic)
        body = b"".join(
            dead_letter(letter.record, _story(source, letter), index)
            for index, letter in enumerate(letters.messages)
        )
        message = Produce(body, len(letters.messages), producer=letters.producer, acks=Acks.ALL, by_broker=True)
        with suppress(*ARRIVED_BEFORE):
            await target.call(message)

    async def _dead_letter_partition(self, source: DeadLettersWait, topic: TopicOutline) -> ActorRef:
        """The partition with the same number as in the source topic, modulo the number of partitions."""
        name = dead_letter_topic(source.topic)
        found = await outline_of(self._topics, name)
        if found is None:
            await self._make(name, topic.partitions)
            found = await outline_of(self._topics, name)
        if found is None:
            raise Unavailable(f"topic {name} was deleted just now; try again")
        return await self._topics.call(FindPartition(found.uuid, source.partition % found.partitions))

    async def _make(self, name: str, partitions: int) -> None:
        with suppress(TopicExists):  # another partition needed it at the same time
            await self._topics.call(CreateTopic(name, partitions, {"retention_hours": UNLIMITED}, by_broker=True))


async def outline_of(topics: ActorRef, name: str) -> TopicOutline | None:
    return next((each for each in await topics.call(OutlineTopics()) if each.name == name), None)


def _story(source: DeadLettersWait, letter: DeadLetter) -> Story:
    return Story(
        topic=source.topic,
        partition=source.partition,
        offset=letter.offset,
        group=source.group,
        attempts=letter.attempts,
        first_delivery=letter.first_delivery,
        last_delivery=letter.last_delivery,
        reason=letter.reason,
    )
