"""What clients were told and what they saw, and the guarantees that follow from it.

Every value is sent once in a whole run, so a value names its message. What a message may become depends on how its
sending ended: confirmed, it lies where it was said, once; refused, it is nowhere; given up by its sender (it was
cancelled or timed out, or its outcome is unknown), it is there once or not at all.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import mmh3
import trio

import goqueue
from tests.sim.disk.history import Violation


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class Sent:
    """A message that somebody sent; `sender` and `number` say in which order."""

    sender: str
    number: int
    value: bytes
    key: bytes | None
    acks: goqueue.Acks
    since: float
    place: Place | None = None
    is_confirmed: bool = False
    is_refused: bool = False
    is_given_up: bool = False


@dataclass(slots=True)
class ClientHistory:
    partitions: dict[str, int]
    """Of each topic that is written to."""
    sent: dict[bytes, Sent] = field(default_factory=dict)
    kept: dict[Place, bytes] = field(default_factory=dict)
    """What nothing may take away: confirmed by acks=all, or seen by a reader."""
    accepted: dict[Place, bytes] = field(default_factory=dict)
    """What was confirmed by acks=leader: a killed process keeps it, a power cut may take it."""
    may_have_gaps: bool = False
    """Hidden messages have offsets, too, and no reader sees them."""
    removes: bool = False
    """Messages go once every group is done with them: what is gone is for the groups to judge."""
    _power_cut_at: float = -1.0
    _numbers: Counter[str] = field(default_factory=Counter)

    # What happened

    def send(self, sender: str, value: bytes, key: bytes | None, acks: goqueue.Acks) -> Sent:
        self._numbers[sender] += 1
        sent = self.sent[value] = Sent(sender, self._numbers[sender], value, key, acks, trio.current_time())
        return sent

    def confirm(self, sent: Sent, published: goqueue.Published) -> None:
        if published.offset is None:
            raise Violation(f"G11: {sent} was confirmed without an offset")
        sent.is_confirmed = True
        if sent.acks is goqueue.Acks.LEADER and sent.since <= self._power_cut_at:
            return  # perhaps written before the cut and lost by it: a call is told when all of it is decided
        sent.place = Place(published.topic, published.partition, published.offset)
        self._hold(sent.place, sent.value, "confirmed")
        if sent.acks is goqueue.Acks.ALL:
            self.kept[sent.place] = sent.value
        else:
            self.accepted[sent.place] = sent.value

    def refuse(self, sent: Sent) -> None:
        sent.is_refused = True

    def give_up(self, sent: Sent) -> None:
        sent.is_given_up = True

    def see(self, message: goqueue.Message) -> None:
        """A reader saw it: it is durable, and nobody may ever see another one there."""
        place = Place(message.topic, message.partition, message.offset)
        self._hold(place, message.value, "seen")
        sent = self.sent.get(message.value)
        if sent is None:
            raise Violation(f"G1: {message.value[:30]!r} at {place} was never sent")
        if sent.place is not None and sent.place != place:
            raise Violation(f"G11: {sent.value[:30]!r} was confirmed at {sent.place} and lies at {place}")
        if message.key != sent.key:
            raise Violation(f"G1: {sent.value[:30]!r} was sent with key {sent.key!r} and has {message.key!r}")
        self.kept[place] = message.value

    def _hold(self, place: Place, value: bytes, word: str) -> None:
        before = self.kept.get(place, value)
        if before != value:
            raise Violation(f"G3: {value[:30]!r} is {word} at {place}, where {before[:30]!r} was before")

    def power_failed(self) -> None:
        """What was only in memory may be gone, and its offsets go to others."""
        self._power_cut_at = trio.current_time()
        self.accepted.clear()
        for sent in self.sent.values():
            if sent.acks is goqueue.Acks.LEADER and sent.place not in self.kept:
                sent.place = None  # it may lie elsewhere, or nowhere: it promises nothing any more

    def held(self) -> dict[Place, bytes]:
        """What the log must hold from now on, whatever else is written."""
        return {**self.accepted, **self.kept}

    # What must hold

    def check(self, topic: str, messages: Sequence[goqueue.Message], held: dict[Place, bytes]) -> None:
        """Compare with everything that is in the topic now; `held` is from before it was read."""
        found = {Place(each.topic, each.partition, each.offset): each.value for each in messages}
        for place, value in held.items():
            if self.removes and place not in found:
                continue
            if place.topic == topic and found.get(place) != value:
                raise Violation(
                    f"G1: {value[:30]!r} was at {place}, now there is {(found.get(place) or b'')[:30]!r}"
                )
        self._check_offsets(topic, found)
        self._check_values(messages)
        self._check_keys(messages)
        self._check_order(messages)

    def _check_offsets(self, topic: str, found: Iterable[Place]) -> None:
        for number in range(self.partitions[topic]):
            offsets = sorted(place.offset for place in found if place.partition == number)
            if offsets != list(range(len(offsets))) and not self.may_have_gaps:
                raise Violation(f"G3: the offsets of {topic}/{number} have gaps or come twice: {offsets}")

    def _check_values(self, messages: Sequence[goqueue.Message]) -> None:
        for value, count in Counter(message.value for message in messages).items():
            if count > 1:
                raise Violation(f"G11: {value[:30]!r} is there {count} times")
            if self.sent[value].is_refused:
                raise Violation(f"G14: {value[:30]!r} was refused and is there")

    def _check_keys(self, messages: Sequence[goqueue.Message]) -> None:
        for message in messages:
            count = self.partitions[message.topic]
            if message.key and message.partition != mmh3.hash(message.key, 0, signed=False) % count:
                raise Violation(f"G4: key {message.key!r} does not belong to partition {message.partition}")

    def _check_order(self, messages: Sequence[goqueue.Message]) -> None:
        rows: dict[tuple[str, int], list[int]] = {}
        for message in sorted(messages, key=lambda each: (each.partition, each.offset)):
            sent = self.sent[message.value]
            if not sent.is_given_up:
                rows.setdefault((sent.sender, message.partition), []).append(sent.number)
        for (sender, partition), numbers in rows.items():
            if numbers != sorted(numbers):
                raise Violation(f"G4: {sender}'s messages are out of order in partition {partition}: {numbers}")

    def check_end(self, present: set[bytes]) -> None:
        """Everybody is told what became of their messages: what was confirmed and never lost is there."""
        for sent in self.sent.values():
            if sent.is_confirmed and sent.acks is goqueue.Acks.ALL and sent.value not in present:
                raise Violation(f"G1: {sent} is not there")
            if not (sent.is_confirmed or sent.is_refused or sent.is_given_up):
                raise Violation(f"G1: nobody was told what became of {sent}")
