"""What a partition remembers of its producers: enough to answer a repeated batch with its first offset (G11).

For each producer the last five batches of its newest epoch are kept, as (first sequence, last sequence, base
offset). A snapshot at some offset and the envelopes behind it give the states back after a crash.

Memory is bounded: a partition remembers `PARTITION_PRODUCERS_MAX` producers of clients, and the partitions of a
node share a second bound (`nodeproducers.py`). The producer that has been silent longest is forgotten first. Ids
rise (`producerids.py`), and the highest forgotten id is remembered: an unknown producer with that id or a lower one
may have been forgotten, so its first batch is refused and never written twice. The broker's own producers, which
carry dead letters, are only forgotten after a day of silence.

Sequences number a producer's records in one partition and one epoch, from 0; after 2**32 - 1 comes 0 again. A
sequence less than half the circle ahead of the expected one is ahead of it, all others are behind it. A batch is

    the next one              accepted
    one of the last five      a duplicate, if it is the same from its first to its last record
    older than these          written long ago: refused, since its offset is no longer known
    anything else             refused: batches are missing before it, or it overlaps what is written
    of an older epoch         refused: the producer was replaced and is fenced
    of a newer epoch          accepted if it is a first one, whatever the older epoch wrote
    of an unknown producer    accepted if it is a first one and its id is above all that were forgotten

Judging changes nothing. Several batches that go into one append are judged by one `Judgement`, each as if those
before it were written; the log notes what was appended, and if that failed, nothing had been counted.

The sequences of the broker's own producers may jump ahead (`let_jump_ahead`). A sequence is journaled where the
messages come from, and nothing is left out there. Here there may be a gap: the dead-letter topic was deleted and
made again, messages between went to other partitions, or the producer was forgotten. A sequence behind the expected
one stays a repeat.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, NamedTuple, Protocol

from goqueue.core.log.producerids import is_of_broker, issued_at
from goqueue.core.records.batch import Producer
from goqueue.errors import Fenced, InvalidMessage, OutOfOrderSequence, RepeatTooOld, UnknownProducer
from goqueue.types import Microseconds, Offset

BATCHES_REMEMBERED = 5
FORGOTTEN_AFTER: Microseconds = 24 * 3600 * 1_000_000
"""Limit of a producer's silence, in append time; then it is forgotten."""
PARTITION_PRODUCERS_MAX = 10_000
FORGOTTEN_AT_ONCE_MAX = 1_000
"""Limit of the producers that one sweep over the silent ones forgets, so that it takes about a millisecond."""
ISSUED_AHEAD_MAX: Microseconds = 24 * 3600 * 1_000_000
"""Limit of how far an id may be ahead of its last append. No broker gave out one from further ahead, so forgetting
it refuses no other."""

SEQUENCES = 2**32
PRODUCER_ID_MAX = 2**64 - 1
EPOCH_MAX = 2**16 - 1
NO_PRODUCER_ID = 0
"""The producer id of batches without idempotence: each is accepted and none remembered."""

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
    batches: tuple[WrittenBatch, ...] = ()
    """The newest at the end. A tuple: most producers write once, and a deque takes 600 bytes."""

    def take(self, epoch: int, batch: WrittenBatch, append_time: Microseconds) -> None:
        """A newer epoch forgets the older one's batches."""
        before = self.batches if epoch == self.epoch else ()
        self.batches = (*before[1 - BATCHES_REMEMBERED :], batch)
        self.epoch, self.last_append_time = epoch, append_time

    def has(self, batch: WrittenBatch) -> bool:
        """Whether this batch is in the state already, so that a replay of it changes nothing."""
        last = self.batches[-1]
        return batch.base_offset < last.base_offset or batch == last

    def snapshot(self, producer_id: int) -> list[Any]:
        return [producer_id, self.epoch, self.last_append_time, [list(batch) for batch in self.batches]]


class SharedBound(Protocol):
    """The bound that the partitions of a node share."""

    def note_first(self, states: "ProducerStates") -> None: ...
    def note_more(self) -> None: ...
    def note_forgotten(self, producer_id: int) -> None: ...


class _NoBound:
    def note_first(self, states: "ProducerStates") -> None: ...
    def note_more(self) -> None: ...
    def note_forgotten(self, producer_id: int) -> None: ...


NO_BOUND: SharedBound = _NoBound()


class ProducerStates:
    def __init__(self, clients_max: int = PARTITION_PRODUCERS_MAX, forgotten_to: int = 0) -> None:
        self.forgotten_to = forgotten_to
        """The highest id that was forgotten."""
        self.noted = 0
        """The number of batches that were noted."""
        self._clients_max = clients_max
        self._shared: SharedBound = NO_BOUND
        self._clients: OrderedDict[int, ProducerState] = OrderedDict()
        self._brokers: OrderedDict[int, ProducerState] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients) + len(self._brokers)

    @property
    def clients(self) -> int:
        """The number of producers of clients."""
        return len(self._clients)

    @property
    def silent_since(self) -> Microseconds | None:
        """The last append of the client's producer that has been silent longest; None without any."""
        for state in self._clients.values():
            return state.last_append_time
        return None

    def share(self, bound: SharedBound, clients_max: int) -> None:
        """From now on this bound is told of producers that come and go, and at most `clients_max` are
        remembered."""
        self._shared, self._clients_max = bound, clients_max
        while len(self._clients) > clients_max:
            self.forget_longest_silent()

    def ids(self) -> list[int]:
        """The longest silent first."""
        return [*self._brokers, *self._clients]

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states_of(producer_id).get(producer_id)

    def _states_of(self, producer_id: int) -> OrderedDict[int, ProducerState]:
        return self._brokers if is_of_broker(producer_id) else self._clients

    def may_be_forgotten(self, producer_id: int) -> bool:
        """Whether an unknown producer may have written here before."""
        return not is_of_broker(producer_id) and producer_id <= self.forgotten_to

    def note(self, producer_id: int, epoch: int, batch: WrittenBatch, append_time: Microseconds) -> None:
        """A batch of this producer is in the log."""
        self._used(producer_id, epoch, append_time).take(epoch, batch, append_time)

    def replay(self, producer_id: int, epoch: int, batch: WrittenBatch, append_time: Microseconds) -> None:
        """As `note`, but a batch that the state has already changes nothing."""
        state = self._used(producer_id, epoch, append_time)
        if not state.batches or not state.has(batch):
            state.take(epoch, batch, append_time)

    def _used(self, producer_id: int, epoch: int, append_time: Microseconds) -> ProducerState:
        """The state of a producer that is heard of just now. It may be forgotten at once, on a crowded node."""
        self.noted += 1
        states = self._states_of(producer_id)
        state = states.get(producer_id)
        if state is None:
            state = states[producer_id] = ProducerState(epoch, append_time)
            if states is self._clients:
                self._keep_bounds()
        else:
            states.move_to_end(producer_id)
        return state

    def _keep_bounds(self) -> None:
        if len(self._clients) == 1:
            self._shared.note_first(self)
        if len(self._clients) > self._clients_max:
            self.forget_longest_silent()
        self._shared.note_more()

    def judge(self, producer_id: int, epoch: int, base_sequence: int, count: int) -> Offset | None:
        """Judge one batch alone: None when it may be written, the first offset of a duplicate, or a typed error."""
        verdict = Judgement(self, 0).judge(producer_id, epoch, base_sequence, count)
        return verdict.base_offset if verdict.duplicate else None

    # Forgetting

    def forget_longest_silent(self) -> None:
        """Forget one producer of a client."""
        producer_id, state = self._clients.popitem(last=False)
        if issued_at(producer_id) <= state.last_append_time + ISSUED_AHEAD_MAX:
            self.forgotten_to = max(self.forgotten_to, producer_id)
        self._shared.note_forgotten(self.forgotten_to)

    def forget_silent(self, now: Microseconds) -> None:
        """Forget those that have been silent for a day; the next call goes on where this one ends."""
        silent_to = now - FORGOTTEN_AFTER
        for _ in range(_count_silent(self._clients, silent_to)):
            self.forget_longest_silent()
        for _ in range(_count_silent(self._brokers, silent_to)):
            self._brokers.popitem(last=False)

    def cut(self, end: Offset) -> None:
        """Nothing from this offset on is in the log any more. For states that share no bound."""
        assert self._shared is NO_BOUND
        for states in (self._clients, self._brokers):
            for state in states.values():
                state.batches = tuple(batch for batch in state.batches if batch.base_offset < end)
            for producer_id in [each for each, state in states.items() if not state.batches]:
                del states[producer_id]

    # Snapshots

    def snapshot(self) -> list[Any]:
        """The states as plain lists, the longest silent first."""
        return [state.snapshot(producer_id) for producer_id, state in self._all()]

    def _all(self) -> Iterator[tuple[int, ProducerState]]:
        yield from self._brokers.items()
        yield from self._clients.items()

    def copy(self) -> "ProducerStates":
        return ProducerStates.restored(self.snapshot(), self.forgotten_to, self._clients_max)

    def restore(self, fields: Sequence[Any]) -> None:
        """Take up one producer of a snapshot; give them in its order."""
        producer_id, epoch, last_append_time, batches = fields
        state = self._used(producer_id, epoch, last_append_time)
        state.batches = tuple(WrittenBatch(*batch) for batch in batches)

    @classmethod
    def restored(
        cls, snapshot: Sequence[Any], forgotten_to: int = 0, clients_max: int = PARTITION_PRODUCERS_MAX
    ) -> "ProducerStates":
        states = cls(clients_max, forgotten_to)
        for fields in snapshot:
            states.restore(fields)
        return states


def _count_silent(states: OrderedDict[int, ProducerState], silent_to: Microseconds) -> int:
    """How many producers, at most `FORGOTTEN_AT_ONCE_MAX`, have been silent since then."""
    first = islice(states.values(), FORGOTTEN_AT_ONCE_MAX)
    return sum(1 for _ in takewhile(lambda state: state.last_append_time <= silent_to, first))


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
        if state is None and self._states.may_be_forgotten(producer_id):
            raise _unknown(_who(producer_id, epoch))
        written = _find_written(state, producer_id, epoch, batch)
        if written is not None:
            return Verdict(True, written.base_offset)
        self._ahead[producer_id] = _followed(state, epoch, batch)
        return self._accepted(count)

    def _accepted(self, count: int) -> Verdict:
        verdict = Verdict(False, self._end)
        self._end += count
        return verdict


def check_id_from_client(producer_id: int) -> None:
    """Refuse the broker's own ids, which the bounds do not count."""
    if producer_id != NO_PRODUCER_ID and is_of_broker(producer_id):
        raise _unknown(f"producer {producer_id}")


def _check_numbers(producer_id: int, epoch: int, base_sequence: int) -> None:
    """Refuse numbers that do not fit into the envelope's fields."""
    if not 0 < producer_id <= PRODUCER_ID_MAX:
        raise InvalidMessage(f"producer id {producer_id} cannot be; ask the broker for one")
    if not 0 <= epoch <= EPOCH_MAX:
        raise InvalidMessage(f"producer epoch {epoch} is not one of 0 to {EPOCH_MAX}")
    if not 0 <= base_sequence < SEQUENCES:
        raise InvalidMessage(f"sequence {base_sequence} is not one of 0 to {SEQUENCES - 1}; it wraps to 0")


def _followed(state: ProducerState | None, epoch: int, batch: WrittenBatch) -> ProducerState:
    """The state after this batch; the given one is not changed."""
    following = ProducerState(epoch, 0, state.batches if state is not None and state.epoch == epoch else ())
    following.take(epoch, batch, 0)
    return following


def _find_written(
    state: ProducerState | None, producer_id: int, epoch: int, batch: WrittenBatch
) -> WrittenBatch | None:
    """The batch that this one repeats, None when this is the next one to write, or an error that says why it is
    neither."""
    who = _who(producer_id, epoch)
    is_first = batch.first_sequence == 0
    if state is None:
        if is_first:
            return None
        raise _unknown(who)
    if epoch < state.epoch:
        raise Fenced(f"{who} was replaced by epoch {state.epoch}; stop this one", epoch=state.epoch)
    if epoch > state.epoch and not is_first:
        raise _out_of_order(who, batch, 0, "a new epoch begins with 0")
    if epoch > state.epoch or batch.first_sequence == state.batches[-1].next_sequence:
        return None
    return _find_repeated(state.batches, batch, who)


def _find_repeated(remembered: Sequence[WrittenBatch], batch: WrittenBatch, who: str) -> WrittenBatch:
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


def _who(producer_id: int, epoch: int) -> str:
    return f"producer {producer_id} of epoch {epoch}"


def _unknown(who: str) -> UnknownProducer:
    return UnknownProducer(f"{who} is not known here, or no longer; take a new id and begin with sequence 0")


def _out_of_order(who: str, batch: WrittenBatch, expected: int, why: str) -> OutOfOrderSequence:
    return OutOfOrderSequence(
        f"{who} sent sequence {batch.first_sequence} where {expected} comes next: {why}; "
        f"send what is missing, or {_NEW_EPOCH}",
        expected=expected,
    )


def let_jump_ahead(states: ProducerStates, producer: Producer, end: Offset, now: Microseconds) -> None:
    """Let the sequence of this batch be the next one, unless it is one that was written before."""
    state = states.get(producer.id)
    if state is not None and producer.epoch <= state.epoch and not _is_ahead(producer, state):
        return
    before = (producer.base_sequence - 1) % SEQUENCES
    states.note(producer.id, producer.epoch, WrittenBatch(before, before, end), now)


def _is_ahead(producer: Producer, state: ProducerState) -> bool:
    steps = (producer.base_sequence - state.batches[-1].next_sequence) % SEQUENCES
    return producer.epoch == state.epoch and 0 < steps < SEQUENCES // 2
