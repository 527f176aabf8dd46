"""Transfers dead letters to their topic, each exactly once (G5).

The partition journals the messages of a transfer and its sequence before they are sent. A step that a crash cuts
short is repeated from there: the dead-letter topic knows the sequence and answers a repeat with the first offset,
and only then the partition is told that they are done.

    take (journaled) ─► make the topic if need be ─► append, durably ─► confirm (journaled)

After an error it tries again: a full disk, a partition that is down, a topic that is deleted at this moment.
"""

from collections.abc import Callable, Container
from contextlib import suppress
from typing import Protocol

import trio

from goqueue.actors.delivery.requests import ConfirmDeadLetters, DeadLetters, TakeDeadLetters
from goqueue.actors.partition.requests import Produce
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import CreateTopic, FindPartition, OutlineTopics, TopicOutline
from goqueue.core.groups.deadletter import Story, dead_letter
from goqueue.core.names import dead_letter_topic
from goqueue.core.settingstable import UNLIMITED
from goqueue.errors import GoQueueError, OutOfOrderSequence, RepeatTooOld, TopicExists, Unavailable
from goqueue.types import Acks

MESSAGES_MAX, BYTES_MAX = 500, 1024 * 1024
"""Limits of one transfer, so that one append and its memory stay small."""
ARRIVED_BEFORE = (RepeatTooOld, OutOfOrderSequence)
"""These errors mean that the transfer has arrived. A transfer begins when the one before it has arrived: where
later numbers are written, the earlier ones were. A ledger that lost entries repeats one that ended long ago."""
PAUSE_FIRST, PAUSE_MAX = 0.5, 30.0
"""The pause between two tries in seconds; it doubles up to the maximum."""


class SourceTopic(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> int: ...


class DeadLetterSource(Protocol):
    """A partition with dead letters of the group. It is served while it is among the group's sources."""

    @property
    def topic(self) -> SourceTopic: ...

    @property
    def number(self) -> int: ...

    @property
    def ref(self) -> ActorRef | None: ...


class DeadLetterCarrier:
    """Transfers the dead letters of one group, with a task for each partition."""

    def __init__(
        self,
        group: str,
        topics: ActorRef,
        sources: Container[DeadLetterSource],
        start: Callable[..., object],
        report: Callable[[str], None],
    ) -> None:
        self._group = group
        self._topics = topics
        self._sources = sources
        self._start = start
        self._report = report
        self._under_way: set[DeadLetterSource] = set()
        self._called_again: set[DeadLetterSource] = set()

    def call_for(self, source: DeadLetterSource) -> None:
        """Dead letters wait there, perhaps since before a crash: a partition says so when it is attached, too."""
        if source in self._under_way:
            self._called_again.add(source)
        else:
            self._under_way.add(source)
            self._start(self._serve, source, endless=True)

    async def _serve(self, source: DeadLetterSource) -> None:
        pause, is_known = PAUSE_FIRST, False
        try:
            while source in self._sources:
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

    def _note_trouble(self, source: DeadLetterSource, error: GoQueueError, is_known: bool) -> None:
        if not is_known and source in self._sources:
            self._report(
                f"dead letters of group {self._group} wait in partition {source.number} of {source.topic.name}: "
                f"{error.message}; it is tried again"
            )

    async def _carry_all(self, source: DeadLetterSource) -> None:
        if source.ref is None:
            raise Unavailable(f"partition {source.number} of {source.topic.name} is not found yet; try again")
        while letters := await source.ref.call(TakeDeadLetters(self._group, MESSAGES_MAX, BYTES_MAX)):
            await self._append(source, letters)
            await source.ref.call(ConfirmDeadLetters(self._group, letters.sequence))

    async def _append(self, source: DeadLetterSource, letters: DeadLetters) -> None:
        target = await self._dead_letter_partition(source)
        body = b"".join(
            dead_letter(letter.record, self._story(source, letters, index), index)
            for index, letter in enumerate(letters.messages)
        )
        message = Produce(body, len(letters.messages), producer=letters.producer, acks=Acks.ALL, by_broker=True)
        with suppress(*ARRIVED_BEFORE):
            await target.call(message)

    def _story(self, source: DeadLetterSource, letters: DeadLetters, index: int) -> Story:
        letter = letters.messages[index]
        return Story(
            topic=source.topic.name,
            partition=source.number,
            offset=letter.offset,
            group=self._group,
            attempts=letter.attempts,
            first_delivery=letter.first_delivery,
            last_delivery=letter.last_delivery,
            reason=letter.reason,
        )

    async def _dead_letter_partition(self, source: DeadLetterSource) -> ActorRef:
        """The partition with the same number as in the source topic, modulo the number of partitions."""
        name = dead_letter_topic(source.topic.name)
        found = await outline_of(self._topics, name)
        if found is None:
            outline = await outline_of(self._topics, source.topic.name)
            await self._make(name, outline.partitions if outline is not None else source.topic.partitions)
            found = await outline_of(self._topics, name)
        if found is None:
            raise Unavailable(f"topic {name} was deleted just now; try again")
        return await self._topics.call(FindPartition(found.uuid, source.number % found.partitions))

    async def _make(self, name: str, partitions: int) -> None:
        with suppress(TopicExists):  # another partition needed it at the same time
            await self._topics.call(CreateTopic(name, partitions, {"retention_hours": UNLIMITED}, by_broker=True))


async def outline_of(topics: ActorRef, name: str) -> TopicOutline | None:
    return next((each for each in await topics.call(OutlineTopics()) if each.name == name), None)
