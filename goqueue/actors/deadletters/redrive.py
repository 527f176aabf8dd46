"""The redrive: sends dead letters back, each exactly once; and the dismissal, which is done with them here.

It is a consumer of the dead-letter topic with a group name of the broker's own. It takes the dead letters one after
the other and rejects the chosen ones: they are transferred by the same steps by which a message becomes a dead
letter, and a crash at any step repeats what was journaled and nothing else. It keeps the lease of those that were
not chosen, so that they are not delivered to it again; the next redrive begins by releasing them.

A dead letter that was sent back or dismissed stays in the log and is done for this group: no second redrive finds
it. The ledger notes what became of it, and when. One that is to be sent back once more leaves without being taken:
from the journal of one entry on it is on its way, and no crash finds it waiting.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random

import trio

from goqueue.actors.deadletters.carrier import BYTES_MAX, MESSAGES_MAX, outline_of
from goqueue.actors.deadletters.inbox import Inbox, letters_in
from goqueue.actors.deadletters.requests import DismissDeadLetters, LettersDecided, RedriveDeadLetters
from goqueue.actors.deadletters.rounds import GENERATION, MEMBER, DecisionRound
from goqueue.actors.delivery.requests import (
    AttachGroup,
    ConfirmDeadLetters,
    DeadLetters,
    DismissLetters,
    ReleaseMember,
    SendLettersAgain,
    SettleRuns,
    TakeDeadLetters,
    Taken,
)
from goqueue.actors.metadata.requests import NoteAttached, NoteBegun, NoteMade, ReadGroup, ReadRegister
from goqueue.actors.partition.board import PartitionBoard, board_of
from goqueue.actors.partition.requests import Produce
from goqueue.actors.runtime.concurrently import call_within
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply, ReplyT, Request
from goqueue.actors.runtime.parts import PartHost, answer
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.actors.topics.requests import FindPartition, OutlineTopics, TopicOutline
from goqueue.core.groups.deadletter import Story, dead_letter, one_record, redriven
from goqueue.core.groups.redrive import (
    LetterChoice,
    LetterCounts,
    PassedLetters,
    Receivers,
    RedriveChoice,
    destination_in,
    wanted_destination,
    why_none,
)
from goqueue.core.groups.registry import GROUP_ID_BITS, KnownGroup, SeenTopic
from goqueue.core.groups.settings import GroupSettings, ledger_settings
from goqueue.core.groups.start import EARLIEST
from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.deadletters import LetterVerdict
from goqueue.core.ledger.settlements import Action
from goqueue.core.names import REDRIVE, dead_letter_topic
from goqueue.core.offsetset import OffsetSet
from goqueue.errors import (
    DamagedData,
    GoQueueError,
    GroupConflict,
    OffsetOutOfRange,
    RepeatTooOld,
    UnknownFormat,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.storage.log.views import LogSlice
from goqueue.types import Acks, Buffer, Microseconds, Offset

logger = logging.getLogger("goqueue.redrive")

ANSWER_SECONDS_MAX = 30.0
PAUSE_SECONDS = 5.0
"""The pause before a redrive that a crash cut short is tried once more."""


READ_BYTES = 256 * 1024
BEGINNING = "offset:0"
"""Where its ledgers begin. Unlike `earliest`, it is answered once the ledger is durable."""


class Redriver:
    """A part of the node's `DeadLetterService`."""

    def __init__(
        self,
        topics: ActorRef,
        register: ActorRef,
        host: PartHost,
        random: Random,
        inbox: Inbox,
        *,
        counts: GroupCounts,
    ) -> None:
        self._topics = topics
        self._register = register
        self._host = host
        self._random = random
        self._inbox = inbox
        self._counts = counts
        self._clock = inbox.clock
        self._under_way: set[str] = set()

    @defers(RedriveDeadLetters)
    async def redrive(self, message: RedriveDeadLetters, reply: Reply[LettersDecided]) -> None:
        """A stop does not wait for it: the next start finishes what was begun."""
        self._host.background(answer, reply, self._redrive_all, message, endless=True)

    @defers(DismissDeadLetters)
    async def dismiss(self, message: DismissDeadLetters, reply: Reply[LettersDecided]) -> None:
        self._host.background(answer, reply, self._dismiss_all, message, endless=True)

    async def _redrive_all(self, wanted: RedriveDeadLetters) -> LettersDecided:
        letters = await self._letters(wanted.topic, wanted.partition)
        if letters is None:
            return self._nothing_there()
        if wanted.to is not None:
            await self._check_target(letters.name, wanted.to)
        with self._alone(wanted.topic, letters.name):
            return await self._decide(letters, wanted.partition, await self._redrive_round(wanted))

    async def _dismiss_all(self, wanted: DismissDeadLetters) -> LettersDecided:
        letters = await self._letters(wanted.topic, wanted.partition)
        if letters is None:
            return self._nothing_there()
        with self._alone(wanted.topic, letters.name):
            return await self._decide(letters, wanted.partition, self._dismissal_round(wanted))

    def _nothing_there(self) -> LettersDecided:
        return LettersDecided(0, 0, 0, 0, why_none(PassedLetters(), LetterCounts(), self._clock.now()))

    async def _letters(self, topic: str, partition: int | None) -> TopicOutline | None:
        """None: the first dead letter of the topic has yet to come."""
        name = dead_letter_topic(topic)
        letters = await outline_of(self._topics, name)
        if letters is None:
            await self._topic(topic, f"there is no topic {topic}")
            return None
        if partition is not None and partition >= letters.partitions:
            raise UnknownPartition(f"topic {name} has partitions 0 to {letters.partitions - 1}")
        return letters

    @contextmanager
    def _alone(self, topic: str, name: str) -> Iterator[None]:
        if name in self._under_way:
            raise GroupConflict(f"a redrive of topic {topic} is under way; wait for its end")
        self._under_way.add(name)
        try:
            yield
        finally:
            self._under_way.discard(name)

    async def _decide(self, letters: TopicOutline, partition: int | None, round_: DecisionRound) -> LettersDecided:
        known = await self._begin(letters)
        places = await self._attach_all(known, letters)
        wanted = range(letters.partitions) if partition is None else range(partition, partition + 1)
        for number in wanted:
            await self._go_through(places[number], round_)
        counts = await self._inbox.count_all(letters)
        total = round_.foreseen(sum(counts, LetterCounts()))
        there = sum(counts[wanted.start : wanted.stop], LetterCounts())
        why = "" if round_.count else why_none(round_.passed, there, self._clock.now())
        return LettersDecided(round_.count, total.waiting, total.redriven, total.dismissed, why)

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
            for place in await self._attach_all(known, letters):
                await self._carry(place, self._clock.now())
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

    async def _redrive_round(self, wanted: RedriveDeadLetters) -> DecisionRound:
        topics = frozenset(each.name for each in await self._topics.call(OutlineTopics()))
        groups = frozenset(each.name for each in await self._register.call(ReadRegister()))
        destination = wanted_destination(wanted.to, wanted.all_groups)
        return DecisionRound(
            RedriveChoice(destination, _which(wanted), Receivers(topics, groups)),
            self._clock.now(),
            wanted.messages_max,
            wanted.dry_run,
            per_second=wanted.per_second,
            destination=destination,
            takes_decided=wanted.again,
        )

    def _dismissal_round(self, wanted: DismissDeadLetters) -> DecisionRound:
        return DecisionRound(
            _which(wanted), self._clock.now(), wanted.messages_max, wanted.dry_run, note_text=wanted.note
        )

    async def _attach_all(self, known: KnownGroup, letters: TopicOutline) -> list[ActorRef]:
        """The register learns that the ledgers are there, durably: one that is missing later was lost, and with it
        what was decided."""
        places = [await self._attach(known, letters, number) for number in range(letters.partitions)]
        if known.topics[letters.name].attached < letters.partitions:
            await self._register.call(NoteAttached(REDRIVE, letters.name, letters.uuid, letters.partitions))
        return places

    async def _attach(self, known: KnownGroup, letters: TopicOutline, number: int) -> ActorRef:
        ref = await self._topics.call(FindPartition(letters.uuid, number))
        settings = ledger_settings(REDRIVE, letters.name, GroupSettings(max_deliveries=0))
        is_expected = number < known.topics[letters.name].attached
        attach = AttachGroup(
            REDRIVE,
            known.id,
            settings,
            EARLIEST if is_expected else BEGINNING,
            self._host.ref,
            MEMBER,
            GENERATION,
            is_expected=is_expected,
        )
        await _ask(ref, attach)
        await _ask(ref, ReleaseMember(REDRIVE, MEMBER))
        return ref

    # One partition

    async def _go_through(self, place: ActorRef, round_: DecisionRound) -> None:
        """Up to the current end of the log: messages that come later may be those that were just sent back."""
        await self._carry(place, round_.at)
        board = await board_of(place)
        end = board.log.end_offset
        decided = _decided_before(board, end) if round_.takes_decided else OffsetSet()
        await self._go_through_waiting(place, round_, end)
        await self._go_through_decided(place, round_, decided)

    async def _go_through_waiting(self, place: ActorRef, round_: DecisionRound, end: Offset) -> None:
        while round_.wants_more:
            taken = await _ask(place, round_.take())
            await self._act(place, taken, round_.choose(taken, end), round_)
            if all(run.first >= end for run in taken.all_runs):
                return

    async def _act(
        self, place: ActorRef, taken: Taken, chosen: tuple[AttemptRun, ...], round_: DecisionRound
    ) -> None:
        count = sum(run.size for run in chosen)
        round_.note(count, were_waiting=True)
        if round_.is_dry or not chosen:
            return
        to = round_.destination
        if to is None:
            await _ask(place, DismissLetters(REDRIVE, taken.nonce, chosen, round_.at, round_.note_text))
            return
        await _ask(place, SettleRuns(REDRIVE, taken.nonce, Action.REJECT, chosen, reason="redriven", to=to))
        await self._send(place, count, round_)

    async def _send(self, place: ActorRef, count: int, round_: DecisionRound) -> None:
        await self._carry(place, round_.at)
        if round_.per_second is not None:
            await trio.sleep(count / round_.per_second)

    async def _go_through_decided(self, place: ActorRef, round_: DecisionRound, decided: OffsetSet) -> None:
        """Send those back once more that were decided upon before this redrive."""
        log = (await board_of(place)).log
        at, bounds = 0, decided.bounds
        while bounds is not None and at <= bounds.last and round_.wants_more:
            at = max(at, bounds.first, log.log_start)
            try:
                piece = await log.read(at, READ_BYTES)
            except DamagedData as error:
                at = error.end_offset
            except OffsetOutOfRange:
                return
            else:
                await self._send_some_again(place, round_, piece, decided)
                at = max(piece.next_offset, at + 1)

    async def _send_some_again(
        self, place: ActorRef, round_: DecisionRound, piece: LogSlice, decided: OffsetSet
    ) -> None:
        for chosen in round_.choose_decided(piece.data, decided):
            round_.note(len(chosen), were_waiting=False)
            if not round_.is_dry and round_.destination is not None:
                await _ask(place, SendLettersAgain(REDRIVE, chosen, round_.destination))
                await self._send(place, len(chosen), round_)

    # Carrying

    async def _carry(self, place: ActorRef, at: Microseconds) -> None:
        while letters := await _ask(place, TakeDeadLetters(REDRIVE, MESSAGES_MAX, BYTES_MAX)):
            sorted_ = await self._sorted(place, letters)
            for target, bodies in sorted_.by_target.items():
                body = b"".join(copy(index) for index, copy in enumerate(bodies))
                message = Produce(body, len(bodies), producer=letters.producer, acks=Acks.ALL, by_broker=True)
                with suppress(RepeatTooOld):  # it has arrived, but the ledger lost that entry
                    await _ask(target, message)
            await _ask(place, ConfirmDeadLetters(REDRIVE, letters.sequence, at, sorted_.returned))
            for (group, topic), count in sorted_.redriven.items():
                self._counts.of[group].redriven[topic] += count

    async def _sorted(self, place: ActorRef, letters: DeadLetters) -> "SortedLetters":
        """Always in the same way: a repeat must have as many messages for each target."""
        topics = {each.name: each for each in await self._topics.call(OutlineTopics())}
        sorted_ = SortedLetters()
        for letter in letters.messages:
            story = Story.from_headers(one_record(letter.record).headers)
            if story is None:
                continue  # its content is no longer in the log
            destination = letter.to or destination_in(letter.reason)
            target = topics.get(destination.topic_for(story.topic))
            if target is None:  # it was deleted just now: back to the dead-letter topic
                sorted_.by_target[place].append(_again(letter.record, story))
                sorted_.returned.add(letter.offset, letter.offset)
                continue
            ref = await self._topics.call(FindPartition(target.uuid, story.partition % target.partitions))
            sorted_.by_target[ref].append(_copy(letter.record, destination.group_for(story.group)))
            sorted_.redriven[story.group, story.topic] += 1
        return sorted_


@dataclass(slots=True)
class SortedLetters:
    """Dead letters that leave, by where they go."""

    by_target: "defaultdict[ActorRef, list[Callable[[int], bytes]]]" = field(
        default_factory=lambda: defaultdict(list)
    )
    returned: OffsetSet = field(default_factory=OffsetSet)
    """Those that go back to the dead-letter topic."""
    redriven: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The others, by the group and the topic that they come from."""


def _decided_before(board: PartitionBoard, end: Offset) -> OffsetSet:
    """Without letters that were put back: their copies wait."""
    found, letters = OffsetSet(), letters_in(board)
    for decision, some in () if letters is None else letters.decided(board.log.log_start, end - 1):
        if decision.verdict is not LetterVerdict.RETURNED:
            found.update(some)
    return found


def _which(wanted: RedriveDeadLetters | DismissDeadLetters) -> LetterChoice:
    return LetterChoice(wanted.group, None if wanted.offsets is None else frozenset(wanted.offsets), wanted.reason)


async def _ask(ref: ActorRef, message: Request[ReplyT]) -> ReplyT:
    return await call_within(ANSWER_SECONDS_MAX, ref, message)


def _copy(record: Buffer, group: str | None) -> Callable[[int], bytes]:
    return lambda index: redriven(record, group, index)


def _again(record: Buffer, story: Story) -> Callable[[int], bytes]:
    return lambda index: dead_letter(record, story, index)
