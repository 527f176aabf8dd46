"""Which batches of a turn are appended: by sequence, then by ids, each as if those before it were written (G11)."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.log.appending import AppendJudgement, originals_end
from goqueue.core.log.messageids import REMEMBERED_FOR, MessageIds, NotedId, ids_in
from goqueue.core.log.producers import ProducerStates, Verdict, WrittenBatch
from goqueue.core.records.batch import NO_PRODUCER, Batch, Producer, accept
from goqueue.core.records.record import MESSAGE_ID_HEADER, encode_record
from goqueue.errors import (
    BadRecord,
    BatchRefused,
    DuplicateMessage,
    Fenced,
    GoQueueError,
    OutOfOrderSequence,
    UnknownProducer,
)

SECOND = 1_000_000


def batch(*ids: bytes | None, producer: Producer = NO_PRODUCER) -> Batch:
    """A message for each of these, with that id or without any."""
    named = [{} if each is None else {MESSAGE_ID_HEADER: each} for each in ids]
    body = b"".join(encode_record(number, 0, b"v", headers=headers) for number, headers in enumerate(named))
    return accept(body, len(ids), producer=producer)


def judgement(*noted: NotedId, states: ProducerStates | None = None, end: int = 100) -> AppendJudgement:
    return AppendJudgement(states or ProducerStates(), MessageIds.rebuilt(noted), end, 0)


def judge(judgement: AppendJudgement, batch: Batch) -> Verdict:
    return judgement.judge(batch, ids_in(batch.body, batch.record_count))


def refused(judgement: AppendJudgement, batch: Batch) -> dict[int, int | None]:
    """Which records the refusal names, and where it says that their firsts are."""
    with pytest.raises(BatchRefused) as caught:
        judge(judgement, batch)
    return named_in(caught.value)


def named_in(refusal: BatchRefused) -> dict[int, int | None]:
    named = {}
    for bad in refusal.records:
        assert isinstance(bad.error, DuplicateMessage)
        named[bad.index] = bad.error.offset
    return named


def test_a_batch_that_repeats_ids_is_refused_and_just_these_are_named() -> None:
    turn = judgement(NotedId(b"a", 7, 0), NotedId(b"z", 0, 0))
    assert refused(turn, batch(b"b", b"a", None, b"z")) == {1: 7, 3: 0}
    assert judge(turn, batch(b"b", None)) == Verdict(False, 100)


def test_a_refused_batch_claims_nothing_and_takes_no_offset() -> None:
    turn = judgement(NotedId(b"a", 7, 0))
    assert refused(turn, batch(b"b", b"a")) == {1: 7}
    assert judge(turn, batch(b"b")) == Verdict(False, 100)


def test_an_id_of_an_earlier_batch_of_the_turn_is_taken() -> None:
    turn = judgement()
    assert judge(turn, batch(None, b"a")) == Verdict(False, 100)
    assert refused(turn, batch(b"a")) == {0: 101}


def test_a_second_copy_in_the_same_batch_is_named_without_an_offset() -> None:
    """Its first is not written yet: the client sends that one, then this one again."""
    turn = judgement(NotedId(b"a", 7, 0))
    assert refused(turn, batch(b"b", b"b", b"a", b"b", b"a")) == {1: None, 2: 7, 3: None, 4: 7}
    assert judge(turn, batch(b"b")) == Verdict(False, 100)
    assert refused(turn, batch(b"b", b"b")) == {0: 100, 1: 100}


def test_a_refused_batch_uses_no_sequence() -> None:
    turn = judgement(NotedId(b"a", 7, 0))
    assert refused(turn, batch(b"a", b"b", producer=Producer(1, 0, 0))) == {0: 7}
    with pytest.raises(UnknownProducer):
        judge(turn, batch(b"c", producer=Producer(1, 0, 2)))
    assert judge(turn, batch(b"b", producer=Producer(1, 0, 0))) == Verdict(False, 100)
    with pytest.raises(OutOfOrderSequence):
        judge(turn, batch(b"c", producer=Producer(1, 0, 2)))
    assert judge(turn, batch(b"c", producer=Producer(1, 0, 1))) == Verdict(False, 101)


def test_a_batch_repeated_as_a_whole_is_no_duplicate_of_its_own_ids() -> None:
    """G11: the sequence is judged first, also within a turn."""
    states = ProducerStates()
    states.note(1, 0, WrittenBatch(0, 0, 7), append_time=0)
    turn = judgement(NotedId(b"a", 7, 0), states=states)
    assert judge(turn, batch(b"a", producer=Producer(1, 0, 0))) == Verdict(True, 7)
    assert judge(turn, batch(b"b", producer=Producer(1, 0, 1))) == Verdict(False, 100)
    assert judge(turn, batch(b"b", producer=Producer(1, 0, 1))) == Verdict(True, 100)


def test_a_fenced_producer_hears_that_and_nothing_of_its_ids() -> None:
    states = ProducerStates()
    states.note(1, 5, WrittenBatch(0, 0, 7), append_time=0)
    with pytest.raises(Fenced):
        judge(judgement(NotedId(b"a", 7, 0), states=states), batch(b"a", producer=Producer(1, 4, 1)))


def test_a_refusal_is_good_once_the_last_of_its_originals_is() -> None:
    turn = judgement(NotedId(b"a", 7, 0), NotedId(b"b", 3, 0))
    with pytest.raises(BatchRefused) as caught:
        judge(turn, batch(b"a", b"b", b"c", b"c"))
    assert originals_end(caught.value) == 8
    assert originals_end(BatchRefused([BadRecord(0, DuplicateMessage("in this batch"))])) == 0


@dataclass
class Model:
    """One who forgets nothing: each id with the offset and time of its first, each producer with its last batch."""

    first: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    last: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    log: list[NotedId] = field(default_factory=list)
    batches: list[tuple[int, WrittenBatch]] = field(default_factory=list)
    end: int = 0

    def next_sequence(self, producer: int) -> int:
        sequence, count, _ = self.last.get(producer, (0, 0, 0))
        return sequence + count

    def expected(self, batch: Batch, ids: Sequence[bytes | None], now: int) -> object:
        producer, _, sequence = batch.producer
        if producer and self.last.get(producer, (-1, 0, 0))[:2] == (sequence, len(ids)):
            return Verdict(True, self.last[producer][2])
        if producer and sequence != self.next_sequence(producer):
            return OutOfOrderSequence if producer in self.last else UnknownProducer
        return self.repeats(ids, now) or Verdict(False, self.end)

    def repeats(self, ids: Sequence[bytes | None], now: int) -> dict[int, int | None]:
        known: dict[bytes, int | None] = {
            each: offset for each, (offset, time) in self.first.items() if now - time < REMEMBERED_FOR
        }
        found = {}
        for index, message_id in enumerate(ids):
            if message_id in known:
                found[index] = known[message_id]
            elif message_id is not None:
                known[message_id] = None
        return found

    def write(self, batch: Batch, ids: Sequence[bytes | None], now: int) -> None:
        producer, _, sequence = batch.producer
        if producer:
            self.last[producer] = (sequence, len(ids), self.end)
            self.batches.append((producer, WrittenBatch(sequence, sequence + len(ids) - 1, self.end)))
        for index, message_id in enumerate(ids):
            if message_id is not None:
                self.first[message_id] = (self.end + index, now)
                self.log.append(NotedId(message_id, self.end + index, now))
        self.end += len(ids)


def outcome(judgement: AppendJudgement, batch: Batch) -> object:
    try:
        return judge(judgement, batch)
    except BatchRefused as refusal:
        return named_in(refusal)
    except GoQueueError as error:
        return type(error)


Sent = tuple[int, str, list[bytes | None]]
Turn = tuple[int, list[Sent], str]
ids = st.lists(st.sampled_from([b"a", b"b", b"c", b"d", None]), min_size=1, max_size=4)
sent = st.tuples(st.integers(0, 2), st.sampled_from(["next", "next", "again", "gap"]), ids)
turns = st.lists(
    st.tuples(
        st.integers(0, 70 * SECOND),
        st.lists(sent, min_size=1, max_size=5),
        st.sampled_from(["written", "written", "disk full", "restart"]),
    ),
    max_size=12,
)


@given(turns)
def test_whatever_is_sent_is_judged_as_by_one_who_forgets_nothing(turns: list[Turn]) -> None:
    """Turns of any batches at any times; some appends fail, and some are followed by a restart."""
    states, known, model, now = ProducerStates(), MessageIds(), Model(), 0
    for pause, messages, fate in turns:
        now += pause
        turn, ahead = AppendJudgement(states, known, model.end, now), deepcopy(model)
        for each in messages:
            offered, given_ids = offer(each, ahead)
            expected = ahead.expected(offered, given_ids, now)
            assert outcome(turn, offered) == expected
            if expected == Verdict(False, ahead.end):
                ahead.write(offered, given_ids, now)
        if fate == "disk full":
            continue
        for producer, written in ahead.batches[len(model.batches) :]:
            states.note(producer, 0, written, now)
        for note in ahead.log[len(model.log) :]:
            known.note(*note)
        model = ahead
        if fate == "restart":
            known = MessageIds.rebuilt(note for note in model.log if now - note.append_time <= REMEMBERED_FOR)


def offer(sent: Sent, ahead: Model) -> tuple[Batch, list[bytes | None]]:
    """What a producer, healthy or not, would send next."""
    producer, verb, given_ids = sent
    if not producer:
        return batch(*given_ids), given_ids
    sequence = ahead.next_sequence(producer) + (verb == "gap")
    if verb == "again" and producer in ahead.last:
        sequence, count, _ = ahead.last[producer]
        given_ids = (given_ids * count)[:count]
    return batch(*given_ids, producer=Producer(producer, 0, sequence)), given_ids
