"""What a partition remembers of its producers: enough to answer a repeated batch with its first offset (G11).

Of each producer the last five batches of its newest epoch are kept, as (first sequence, last sequence, base
offset). The state is a pure function of the envelopes in the log, so a snapshot at some offset and the
envelopes behind it give it back after a crash.

Sequences number a producer's records in one partition and one epoch, from 0; behind 2**32 - 1 comes 0 again. What
lies less than half the circle ahead of the expected sequence is ahead of it, all else is behind it. A batch is

    the next one              accepted
    one of the last five      a duplicate, if it is the same from its first to its last record
    older than these          written long ago: refused, since its offset is no longer known
    anything else             refused: batches are missing before it, or it overlaps what is written
    of an older epoch         refused: the producer was replaced and is fenced
    of a newer epoch          accepted if it is a first one, whatever the older epoch wrote
    of an unknown producer    accepted if it is a first one

Judging changes nothing. Several batches that go into one append are judged by one `Judgement`, each as if those
before it were written; the log notes what was appended, and if that failed, nothing had been counted.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from goqueue.errors import Fenced, InvalidMessage, OutOfOrderSequence, RepeatTooOld, UnknownProducer
from goqueue.types import Microseconds, Offset

BATCHES_REMEMBERED = 5
FORGOTTEN_AFTER: Microseconds = 24 * 3600 * 1_000_000
"""Of silence, counted in append time."""

SEQUENCES = 2**32
PRODUCER_ID_MAX = 2**64 - 1
EPOCH_MAX = 2**16 - 1
NO_PRODUCER_ID = 0
"""Of batches without idempotence: each is accepted and none remembered."""

_NEW_EPOCH = "take a new epoch and begin with sequence 0"


class WrittenBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: Offset

    @property
    def next_sequence(self) -> int:
        return (self.last_sequence + 1) % SEQUENCES


class Verdict(NamedTuple):
    """A batch may be written at this offset, or it was written there before."""

    duplicate: bool
    base_offset: Offset


@dataclass(slots=True)
class ProducerState:
    epoch: int
    last_append_time: Microseconds
    batches: deque[WrittenBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))


class ProducerStates:
    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def note(
        self,
        producer_id: int,
        epoch: int,
        batch: WrittenBatch,
        append_time: Microseconds,
    ) -> None:
        """A batch of this producer is in the log. A newer epoch forgets the older one's batches."""
        state = self._states.get(producer_id)
        if state is None or epoch != state.epoch:
            state = self._states[producer_id] = ProducerState(epoch, append_time)
        state.batches.append(batch)
        state.last_append_time = append_time

    def judge(self, producer_id: int, epoch: int, base_sequence: int, count: int) -> Offset | None:
        """Of one batch alone: None when it may be written, the first offset of a duplicate, or a typed error."""
        verdict = Judgement(self, 0).judge(producer_id, epoch, base_sequence, count)
        return verdict.base_offset if verdict.duplicate else None

    def forget_silent(self, now: Microseconds) -> None:
        silent = [key for key, state in self._states.items() if now - state.last_append_time >= FORGOTTEN_AFTER]
        for producer_id in silent:
            del self._states[producer_id]

    def snapshot(self) -> list[Any]:
        """The state as plain lists, for a seal or a recovery point."""
        return [
            [producer_id, state.epoch, state.last_append_time, [list(batch) for batch in state.batches]]
            for producer_id, state in self._states.items()
        ]

    @classmethod
    def restored(cls, snapshot: list[Any]) -> "ProducerStates":
        states = cls()
        for producer_id, epoch, last_append_time, batches in snapshot:
            state = ProducerState(epoch, last_append_time)
            state.batches.extend(WrittenBatch(*batch) for batch in batches)
            states._states[producer_id] = state
        return states


class Judgement:
    """The batches of one append, judged in order against the states and each other. Drop it afterwards."""

    def __init__(self, states: ProducerStates, end_offset: Offset) -> None:
        self._states = states
        self._end = end_offset
        self._ahead: dict[int, ProducerState] = {}

    def judge(self, producer_id: int, epoch: int, base_sequence: int, count: int) -> Verdict:
        """Accepted at the next offset, or a duplicate; or a typed error, after which the next may be judged."""
        assert count >= 1
        if producer_id == NO_PRODUCER_ID:
            return self._accepted(count)
        _check_numbers(producer_id, epoch, base_sequence)
        state = self._ahead.get(producer_id) or self._states.get(producer_id)
        batch = WrittenBatch(base_sequence, (base_sequence + count - 1) % SEQUENCES, self._end)
        written = _find_written(state, producer_id, epoch, batch)
        if written is not None:
            return Verdict(True, written.base_offset)
        self._ahead[producer_id] = _followed(state, epoch, batch)
        return self._accepted(count)

    def _accepted(self, count: int) -> Verdict:
        verdict = Verdict(False, self._end)
        self._end += count
        return verdict


def _check_numbers(producer_id: int, epoch: int, base_sequence: int) -> None:
    """Checked before they meet the envelope, whose fields end there."""
    if not 0 < producer_id <= PRODUCER_ID_MAX:
        raise InvalidMessage(f"producer id {producer_id} cannot be; ask the broker for one")
    if not 0 <= epoch <= EPOCH_MAX:
        raise InvalidMessage(f"producer epoch {epoch} is not one of 0 to {EPOCH_MAX}")
    if not 0 <= base_sequence < SEQUENCES:
        raise InvalidMessage(f"sequence {base_sequence} is not one of 0 to {SEQUENCES - 1}; it wraps to 0")


def _followed(state: ProducerState | None, epoch: int, batch: WrittenBatch) -> ProducerState:
    """The state as it will be; the one that is stays as it is."""
    following = ProducerState(epoch, 0)
    if state is not None and state.epoch == epoch:
        following.batches.extend(state.batches)
    following.batches.append(batch)
    return following


def _find_written(
    state: ProducerState | None, producer_id: int, epoch: int, batch: WrittenBatch
) -> WrittenBatch | None:
    """The batch of which this is a repeat, None when this is the next one to write, or the reason it is neither."""
    who = f"producer {producer_id} of epoch {epoch}"
    is_first = batch.first_sequence == 0
    if state is None:
        if is_first:
            return None
        raise UnknownProducer(f"{who} is not known here, or no longer; {_NEW_EPOCH}")
    if epoch < state.epoch:
        raise Fenced(f"{who} was replaced by epoch {state.epoch}; stop this one", epoch=state.epoch)
    if epoch > state.epoch and not is_first:
        raise _out_of_order(who, batch, 0, "a new epoch begins with 0")
    if epoch > state.epoch or batch.first_sequence == state.batches[-1].next_sequence:
        return None
    return _find_repeated(state.batches, batch, who)


def _find_repeated(remembered: deque[WrittenBatch], batch: WrittenBatch, who: str) -> WrittenBatch:
    for written in remembered:
        if written[:2] == batch[:2]:
            return written
    if _is_behind(batch.last_sequence, remembered[0].first_sequence):
        raise RepeatTooOld(
            f"{who} sent sequence {batch.first_sequence} again, which was written more than "
            f"{len(remembered)} batches ago; its offset is no longer known, do not send it again"
        )
    expected = remembered[-1].next_sequence
    overlaps = _is_behind(batch.first_sequence, expected)
    raise _out_of_order(who, batch, expected, "it overlaps what is written" if overlaps else "batches are missing")


def _is_behind(sequence: int, other: int) -> bool:
    return (sequence - other) % SEQUENCES >= SEQUENCES // 2


def _out_of_order(who: str, batch: WrittenBatch, expected: int, why: str) -> OutOfOrderSequence:
    return OutOfOrderSequence(
        f"{who} sent sequence {batch.first_sequence} where {expected} comes next: {why}; "
        f"send what is missing, or {_NEW_EPOCH}",
        expected=expected,
    )
