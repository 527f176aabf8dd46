"""The redrive: sends dead letters back, each exactly once.

It is a consumer of the dead-letter topic with a group name of the broker's own. It takes the dead letters one after
the other and rejects the chosen ones: they are transferred by the same steps by which a message becomes a dead
letter, and a crash at any step repeats what was journaled and nothing else. It keeps the lease of those that were
not chosen, so that they are not delivered to it again; the next redrive begins by releasing them.

A dead letter that was sent back stays in the log and is done for this group: no second redrive finds it.
"""

import logging
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import trio

from goqueue.actors.deadletters.carrier import BYTES_MAX, MESSAGES_MAX, outline_of
from goqueue.actors.deadletters.requests import RedriveDeadLetters
from goqueue.actors.delivery.requests import (
    AttachGroup,
    ConfirmDeadLetters,
    DeadLetters,
    ReleaseMember,
    SettleRuns,
    Take,
    TakeDeadLetters,
    Taken,
)
from goqueue.actors.metadata.requests import NoteBegun, NoteMade, ReadGroup, ReadRegister
from goqueue.actors.partition.board import board_of
from goqueue.actors.partition.requests import Produce
from goqueue.actors.runtime.concurrently import call_within
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply, ReplyT, Request
from goqueue.actors.runtime.parts import PartHost, answer
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import FindPartition, OutlineTopics, TopicOutline
from goqueue.core.groups.deadletter import Story, dead_letter, one_record, redriven
from goqueue.core.groups.redrive import RedriveChoice, destination_in, wanted_destination
from goqueue.core.groups.registry import GROUP_ID_BITS, KnownGroup, SeenTopic
from goqueue.core.groups.settings import GroupSettings, ledger_settings
from goqueue.core.groups.start import EARLIEST
from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.settlements import Action
from goqueue.core.names import REDRIVE, dead_letter_topic
from goqueue.core.offsetset import OffsetSet
from goqueue.core.slices.picking import picked_records
from goqueue.errors import (
    GoQueueError,
    GroupConflict,
    RepeatTooOld,
    UnknownFormat,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.types import Acks, Buffer, Offset

logger = logging.getLogger("goqueue.redrive")

MEMBER, GENERATION = "redrive", 1
VISIBILITY_SECONDS = 3_600.0
"""The lease of dead letters that were not chosen. When they are delivered again after it, they are not chosen."""
ANSWER_SECONDS_MAX = 30.0
PAUSE_SECONDS = 5.0
"""The pause before a redrive that a crash cut short is tried once more."""


class Redriver:
    """A part of the node's `DeadLetterService`."""

    def __init__(self, topics: ActorRef, register: ActorRef, host: PartHost, random: Random) -> None:
        self._topics = topics
        self._register = register
        self._host = host
        self._random = random
        self._under_way: set[str] = set()

    @defers(RedriveDeadLetters)
    async def redrive(self, message: RedriveDeadLetters, reply: Reply[tuple[int, int]]) -> None:
        """A stop does not wait for it: the next start finishes what was begun."""
        self._host.background(answer, reply, self._redrive_all, message, endless=True)

    async def _redrive_all(self, wanted: RedriveDeadLetters) -> tuple[int, int]:
        """The number that was sent, or would be, and the number that remains."""
        name = dead_letter_topic(wanted.topic)
        letters = await self._topic(name, f"topic {wanted.topic} has no dead letters")
        if wanted.to is not None:
            await self._check_target(name, wanted.to)
        if wanted.partition is not None and wanted.partition >= letters.partitions:
            raise UnknownPartition(f"topic {name} has partitions 0 to {letters.partitions - 1}")
        if name in self._under_way:
            raise GroupConflict(f"a redrive of topic {wanted.topic} is under way; wait for its end")
        self._under_way.add(name)
        try:
            return await self._redrive(wanted, letters)
        finally:
            self._under_way.discard(name)

    async def _redrive(self, wanted: RedriveDeadLetters, letters: TopicOutline) -> tuple[int, int]:
        known, round_ = await self._begin(letters), await self._round(wanted)
        places = [await self._attach(known, letters, number) for number in range(letters.partitions)]
        for place in places if wanted.partition is None else [places[wanted.partition]]:
            await self._go_through(place, round_)
        remaining = sum([await self._lag(place) for place in places])
        return round_.count, remaining - round_.count if wanted.dry_run else remaining

    async def finish(self) -> None:
        """Finish the transfers that a crash cut short, trying again until that succeeds."""
        while True:
            try:
                known = await self._register.call(ReadGroup(REDRIVE))
                for seen in known.topics.values():
                    await self._finish_topic(known, seen.name)
            except (UnknownGroup, UnknownFormat):  # there was none, or the register cannot be read at all
                return
            except GoQueueError as error:
                logger.warning("a redrive that was cut short cannot be finished: %s; it is tried again", error)
                await trio.sleep(PAUSE_SECONDS)
            else:
                return

    async def _finish_topic(self, known: KnownGroup, name: str) -> None:
        letters = await outline_of(self._topics, name)
        if letters is None or letters.uuid != known.topics[name].uuid or name in self._under_way:
            return
        self._under_way.add(name)
        try:
            for number in range(letters.partitions):
                await self._carry(await self._attach(known, letters, number))
        finally:
            self._under_way.discard(name)

    # Getting ready

    async def _topic(self, name: str, otherwise: str) -> TopicOutline:
        found = await outline_of(self._topics, name)
        if found is None:
            raise UnknownTopic(f"{otherwise}; list the topics to see which there are")
        return found

    async def _check_target(self, letters: str, to: str) -> None:
        await self._topic(to, f"there is no topic {to} to send to")
        if to == letters:
            raise GroupConflict(f"the dead letters are in topic {to} already; choose another one")

    async def _begin(self, letters: TopicOutline) -> KnownGroup:
        """Note the topic in the register: from now on a start finishes a redrive that was cut short here."""
        try:
            known = await self._register.call(ReadGroup(REDRIVE))
        except UnknownGroup:
            known = await self._register.call(
                NoteMade(REDRIVE, self._random.getrandbits(GROUP_ID_BITS), by_broker=True)
            )
        seen = known.topics.get(letters.name)
        if seen is not None and seen.uuid == letters.uuid:
            return known
        begun = SeenTopic(letters.name, letters.uuid, letters.partitions, EARLIEST)
        return await self._register.call(NoteBegun(REDRIVE, (begun,)))

    async def _round(self, wanted: RedriveDeadLetters) -> "_Round":
        choice = RedriveChoice(
            wanted_destination(wanted.to, wanted.all_groups),
            wanted.group,
            None if wanted.offsets is None else frozenset(wanted.offsets),
            wanted.reason,
        )
        topics = frozenset(each.name for each in await self._topics.call(OutlineTopics()))
        groups = frozenset(each.name for each in await self._register.call(ReadRegister()))
        return _Round(choice, topics, groups, wanted.messages_max, wanted.per_second, wanted.dry_run)

    async def _attach(self, known: KnownGroup, letters: TopicOutline, number: int) -> ActorRef:
        ref = await self._topics.call(FindPartition(letters.uuid, number))
        settings = ledger_settings(REDRIVE, letters.name, GroupSettings(max_deliveries=0))
        await _ask(
            ref, AttachGroup(REDRIVE, known.id, settings, EARLIEST, self._host.ref, MEMBER, GENERATION, False)
        )
        await _ask(ref, ReleaseMember(REDRIVE, MEMBER))
        return ref

    async def _lag(self, place: ActorRef) -> int:
        view = await (await board_of(place)).ledgers.view(REDRIVE)
        return 0 if view is None else view.lag

    # One partition

    async def _go_through(self, place: ActorRef, round_: "_Round") -> None:
        """Up to the current end of the log: messages that come later may be those that were just sent back."""
        await self._carry(place)
        end = (await board_of(place)).log.end_offset
        while round_.wants_more:
            taken = await _ask(place, round_.take())
            await self._send_back(place, taken, round_.choose(taken, end), round_)
            if all(run.first >= end for run in taken.all_runs):
                return

    async def _send_back(
        self, place: ActorRef, taken: Taken, chosen: tuple[AttemptRun, ...], round_: "_Round"
    ) -> None:
        round_.count += sum(run.size for run in chosen)
        if round_.is_dry or not chosen:
            return
        to = round_.choice.destination
        await _ask(place, SettleRuns(REDRIVE, taken.nonce, Action.REJECT, chosen, reason="redriven", to=to))
        await self._carry(place)
        if round_.per_second is not None:
            await trio.sleep(sum(run.size for run in chosen) / round_.per_second)

    # Carrying

    async def _carry(self, place: ActorRef) -> None:
        while letters := await _ask(place, TakeDeadLetters(REDRIVE, MESSAGES_MAX, BYTES_MAX)):
            for target, bodies in (await self._sorted(place, letters)).items():
                body = b"".join(copy(index) for index, copy in enumerate(bodies))
                message = Produce(body, len(bodies), producer=letters.producer, acks=Acks.ALL, by_broker=True)
                with suppress(RepeatTooOld):  # it has arrived, but the ledger lost that entry
                    await _ask(target, message)
            await _ask(place, ConfirmDeadLetters(REDRIVE, letters.sequence))

    async def _sorted(
        self, place: ActorRef, letters: DeadLetters
    ) -> "dict[ActorRef, list[Callable[[int], bytes]]]":
        """By target partition. Always in the same way: a repeat must have as many messages for each target."""
        topics = {each.name: each for each in await self._topics.call(OutlineTopics())}
        by_target = defaultdict[ActorRef, list[Callable[[int], bytes]]](list)
        for letter in letters.messages:
            story = Story.from_headers(one_record(letter.record).headers)
            if story is None:
                continue  # its content is no longer in the log
            destination = letter.to or destination_in(letter.reason)
            target = topics.get(destination.topic_for(story.topic))
            if target is None:  # it was deleted just now: back to the dead-letter topic
                by_target[place].append(_again(letter.record, story))
                continue
            ref = await self._topics.call(FindPartition(target.uuid, story.partition % target.partitions))
            by_target[ref].append(_copy(letter.record, destination.group_for(story.group)))
        return by_target


@dataclass(slots=True)
class _Round:
    """One redrive: its choice, and its count so far."""

    choice: RedriveChoice
    topics: frozenset[str]
    groups: frozenset[str]
    messages_max: int | None
    per_second: int | None
    is_dry: bool
    count: int = 0

    @property
    def wants_more(self) -> bool:
        return self.messages_max is None or self.count < self.messages_max

    def take(self) -> Take:
        count = min(MESSAGES_MAX, self.per_second or MESSAGES_MAX)
        return Take(REDRIVE, MEMBER, GENERATION, count, BYTES_MAX, VISIBILITY_SECONDS, is_busy=False)

    def choose(self, taken: Taken, end: Offset) -> tuple[AttemptRun, ...]:
        attempts = {offset: run.attempt for run in taken.all_runs for offset in range(run.first, run.last + 1)}
        chosen = [
            AttemptRun(offset, offset, attempts[offset])
            for offset, record in picked_records(taken.data, OffsetSet.of(attempts))
            if offset < end and self._takes(offset, record)
        ]
        return tuple(chosen if self.messages_max is None else chosen[: self.messages_max - self.count])

    def _takes(self, offset: Offset, record: Buffer) -> bool:
        return self.choice.takes(offset, Story.from_headers(one_record(record).headers), self.topics, self.groups)


async def _ask(ref: ActorRef, message: Request[ReplyT]) -> ReplyT:
    return await call_within(ANSWER_SECONDS_MAX, ref, message)


def _copy(record: Buffer, group: str | None) -> Callable[[int], bytes]:
    return lambda index: redriven(record, group, index)


def _again(record: Buffer, story: Story) -> Callable[[int], bytes]:
    return lambda index: dead_letter(record, story, index)
