"""Which batches of an idempotent producer are written, which are repeats, and which are refused (G11)."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.log.producers import (
    BATCHES_REMEMBERED,
    EPOCH_MAX,
    FORGOTTEN_AFTER,
    PRODUCER_ID_MAX,
    SEQUENCES,
    Judgement,
    ProducerStates,
    Verdict,
    WrittenBatch,
)
from goqueue.errors import (
    Fenced,
    GoQueueError,
    InvalidMessage,
    OutOfOrderSequence,
    ProducerRefused,
    RepeatTooOld,
    UnknownProducer,
)

LAST = SEQUENCES - 1


class Sent(NamedTuple):
    epoch: int
    sequence: int
    size: int = 1
    producer: int = 1


def write(states: ProducerStates, sent: Sent, offset: int) -> None:
    """As the log notes what it appended."""
    batch = WrittenBatch(sent.sequence, (sent.sequence + sent.size - 1) % SEQUENCES, offset)
    states.note(sent.producer, sent.epoch, batch, append_time=0)


def states_after(*batches: Sent) -> ProducerStates:
    states, end = ProducerStates(), 100
    for sent in batches:
        write(states, sent, end)
        end += sent.size
    return states


def judge(states: ProducerStates, sent: Sent) -> int | None:
    return states.judge(sent.producer, sent.epoch, sent.sequence, sent.size)


def test_the_first_and_each_next_batch_are_accepted() -> None:
    assert judge(states_after(), Sent(0, 0, 3)) is None
    assert judge(states_after(Sent(0, 0, 3)), Sent(0, 3)) is None
    assert judge(states_after(Sent(0, 0, 3), Sent(0, 3)), Sent(0, 4)) is None


def test_a_repeat_is_answered_with_the_offset_of_its_first_time() -> None:
    """G11, for each of the last five."""
    states = states_after(*[Sent(0, 2 * number, 2) for number in range(7)])
    assert [judge(states, Sent(0, 2 * number, 2)) for number in range(2, 7)] == [104, 106, 108, 110, 112]


def test_a_repeat_older_than_the_last_five_is_refused_since_its_offset_is_not_known() -> None:
    states = states_after(*[Sent(0, 2 * number, 2) for number in range(7)])
    for sequence in (0, 2):
        with pytest.raises(RepeatTooOld, match="do not send it again"):
            judge(states, Sent(0, sequence, 2))


@pytest.mark.parametrize(
    "sent", [Sent(0, 2, 1), Sent(0, 2, 3), Sent(0, 3, 1), Sent(0, 1, 2), Sent(0, 0, 4), Sent(0, 3, 9)]
)
def test_a_batch_that_overlaps_what_is_written_without_being_the_same_is_refused(sent: Sent) -> None:
    """Half of it would be written twice, or the other half not at all."""
    with pytest.raises(OutOfOrderSequence, match="overlaps") as caught:
        judge(states_after(Sent(0, 0, 2), Sent(0, 2, 2)), sent)
    assert caught.value.details["expected"] == 4


def test_a_batch_that_begins_before_all_that_is_remembered_and_reaches_into_it_overlaps() -> None:
    """To call it written long ago would be a lie about its last records, had they been others."""
    states = states_after(*[Sent(0, 2 * number, 2) for number in range(7)])
    with pytest.raises(OutOfOrderSequence, match="overlaps"):
        judge(states, Sent(0, 3, 2))


def test_a_gap_is_refused_with_what_comes_next() -> None:
    with pytest.raises(OutOfOrderSequence, match="missing") as caught:
        judge(states_after(Sent(0, 0, 2)), Sent(0, 3))
    assert caught.value.details["expected"] == 2


def test_an_older_epoch_is_fenced_even_for_what_it_wrote_itself() -> None:
    """G11: a fenced producer writes nothing."""
    states = states_after(Sent(4, 0), Sent(5, 0))
    for sequence in (0, 1, 7):
        with pytest.raises(Fenced, match="epoch 5"):
            judge(states, Sent(4, sequence))


def test_sequence_zero_of_a_new_epoch_is_not_taken_for_the_old_ones() -> None:
    states = states_after(Sent(0, 0))
    assert judge(states, Sent(1, 0)) is None
    assert judge(states, Sent(0, 0)) == 100


def test_a_new_epoch_begins_with_sequence_zero() -> None:
    with pytest.raises(OutOfOrderSequence, match="begins with 0") as caught:
        judge(states_after(Sent(0, 0)), Sent(1, 1))
    assert caught.value.details["expected"] == 0


def test_the_first_batch_of_a_producer_that_may_be_forgotten_is_refused() -> None:
    """G11: nobody knows whether it is a repeat."""
    states, client = ProducerStates(clients_max=1), 2**62
    for number in (1, 2):
        assert states.judge(client + number, 0, 0, 1) is None
        states.note(client + number, 0, WrittenBatch(0, 0, number), number)
    with pytest.raises(UnknownProducer, match="new id"):
        states.judge(client + 1, 0, 0, 1)
    assert states.judge(client + 2, 0, 0, 1) == 2
    assert states.judge(client + 3, 0, 0, 1) is None


def test_an_unknown_or_forgotten_producer_begins_with_sequence_zero() -> None:
    states = states_after(Sent(3, 0), Sent(3, 1))
    assert judge(states, Sent(3, 2)) is None
    states.forget_silent(FORGOTTEN_AFTER)
    with pytest.raises(UnknownProducer, match="new id"):
        judge(states, Sent(3, 2))
    assert judge(states, Sent(3, 0)) is None


def test_behind_the_last_sequence_comes_zero_again() -> None:
    states = states_after(Sent(0, LAST - 3, 2), Sent(0, LAST - 1, 2))
    assert judge(states, Sent(0, 0)) is None
    assert judge(states, Sent(0, LAST - 1, 2)) == 102
    with pytest.raises(OutOfOrderSequence, match="missing"):
        judge(states, Sent(0, 1))


def test_a_batch_may_reach_over_the_last_sequence() -> None:
    states = states_after(Sent(0, LAST - 1, 1), Sent(0, LAST, 5))
    state = states.get(1)
    assert state is not None
    assert state.batches[-1] == WrittenBatch(LAST, 3, 101)
    assert judge(states, Sent(0, LAST, 5)) == 101
    assert judge(states, Sent(0, 4)) is None
    assert judge(ProducerStates.restored(states.snapshot()), Sent(0, 4)) is None
    with pytest.raises(OutOfOrderSequence, match="overlaps"):
        judge(states, Sent(0, LAST, 4))


def test_what_lies_before_the_wrap_is_old_and_not_ahead() -> None:
    states = states_after(*[Sent(0, (LAST - 1 + number) % SEQUENCES) for number in range(BATCHES_REMEMBERED + 1)])
    assert judge(states, Sent(0, LAST)) == 101
    with pytest.raises(RepeatTooOld):
        judge(states, Sent(0, LAST - 1))


@pytest.mark.parametrize(
    "numbers",
    [(-1, 0, 0), (PRODUCER_ID_MAX + 1, 0, 0), (1, -1, 0), (1, EPOCH_MAX + 1, 0), (1, 0, -1), (1, 0, SEQUENCES)],
)
def test_numbers_that_the_envelope_cannot_hold_are_refused(numbers: tuple[int, int, int]) -> None:
    """G14."""
    with pytest.raises(InvalidMessage):
        Judgement(ProducerStates(), 0).judge(*numbers, 1)


def test_batches_of_one_append_are_judged_as_if_those_before_were_written() -> None:
    judgement = Judgement(states_after(Sent(0, 0, 2)), end_offset=500)
    assert judgement.judge(1, 0, 2, 3) == Verdict(False, 500)
    assert judgement.judge(0, 0, 0, 10) == Verdict(False, 503)
    assert judgement.judge(1, 0, 5, 1) == Verdict(False, 513)
    assert judgement.judge(1, 0, 2, 3) == Verdict(True, 500)
    assert judgement.judge(1, 0, 0, 2) == Verdict(True, 100)
    assert judgement.judge(1, 1, 0, 1) == Verdict(False, 514)
    with pytest.raises(Fenced):
        judgement.judge(1, 0, 6, 1)
    assert judgement.judge(1, 1, 0, 1) == Verdict(True, 514)


def test_a_repeat_within_one_append_finds_its_own_epochs_batch() -> None:
    """Both epochs wrote a batch of the same sequences, at different offsets."""
    judgement = Judgement(states_after(Sent(0, 0)), end_offset=101)
    assert [judgement.judge(1, 1, 0, 1) for _ in range(2)] == [Verdict(False, 101), Verdict(True, 101)]


def test_a_refused_batch_takes_no_offset_and_moves_no_sequence() -> None:
    judgement = Judgement(ProducerStates(), end_offset=0)
    judgement.judge(1, 0, 0, 1)
    with pytest.raises(OutOfOrderSequence):
        judgement.judge(1, 0, 5, 1)
    assert judgement.judge(1, 0, 1, 1) == Verdict(False, 1)


def test_when_the_append_fails_nothing_was_counted() -> None:
    """A sequence that advanced before the append succeeded would turn the retry into a gap or a false duplicate."""
    states = states_after(Sent(0, 0))
    before = states.snapshot()
    judgement = Judgement(states, end_offset=101)
    judgement.judge(1, 0, 1, 1)
    judgement.judge(1, 1, 0, 1)
    judgement.judge(2, 0, 0, 1)
    assert states.snapshot() == before
    assert judge(states, Sent(0, 1)) is None


class Model:
    """Everything that was ever written, kept for ever, with sequences that never wrap."""

    def __init__(self) -> None:
        self.written: list[tuple[Sent, int]] = []
        self.end = 0

    def verdict(self, sent: Sent) -> Verdict | type[ProducerRefused]:
        own = [(old, offset) for old, offset in self.written if old.producer == sent.producer]
        newest = max((old.epoch for old, _ in own), default=None)
        if newest is not None and sent.epoch < newest:
            return Fenced
        if sent.epoch != newest:
            refusal = UnknownProducer if newest is None else OutOfOrderSequence
            return Verdict(False, self.end) if sent.sequence == 0 else refusal
        return self._within_epoch(sent, [(old, offset) for old, offset in own if old.epoch == newest])

    def _within_epoch(self, sent: Sent, own: list[tuple[Sent, int]]) -> Verdict | type[ProducerRefused]:
        if sent.sequence == sum(old.size for old, _ in own):
            return Verdict(False, self.end)
        recent = own[-BATCHES_REMEMBERED:]
        same = [offset for old, offset in recent if (old.sequence, old.size) == (sent.sequence, sent.size)]
        if same:
            return Verdict(True, same[0])
        return RepeatTooOld if sent.sequence + sent.size <= recent[0][0].sequence else OutOfOrderSequence

    def write(self, sent: Sent) -> None:
        self.written.append((sent, self.end))
        self.end += sent.size


def outcome(judgement: Judgement, sent: Sent) -> Verdict | type[GoQueueError]:
    try:
        return judgement.judge(sent.producer, sent.epoch, sent.sequence, sent.size)
    except ProducerRefused as error:
        return type(error)


actions = st.lists(
    st.one_of(
        st.tuples(st.just("next"), st.integers(1, 2), st.integers(1, 3)),
        st.tuples(st.just("next"), st.integers(1, 2), st.integers(1, 3)),
        st.tuples(st.just("repeat"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("new epoch"), st.integers(1, 2), st.integers(0, 1)),
        st.tuples(st.just("any"), st.integers(1, 2), st.integers(0, 9)),
    ),
    max_size=40,
)
Action = tuple[str, int, int]


def sent_by(action: Action, model: Model, epochs: dict[int, int]) -> Sent:
    """What a producer, healthy or not, would send next."""
    verb, number, size = action
    if verb == "repeat" and model.written:
        return model.written[-1 - number % len(model.written)][0]
    producer = 1 + number % 2
    if verb == "new epoch":
        epochs[producer] = epochs.get(producer, 0) + 1
        return Sent(epochs[producer], size, 1, producer)
    if verb == "any":
        return Sent(epochs.get(producer, 0), size, 1 + size % 2, producer)
    epoch = epochs.get(producer, 0)
    own = [old for old, _ in model.written if old.producer == producer and old.epoch == epoch]
    return Sent(epoch, sum(old.size for old in own), max(1, size), producer)


@given(actions, st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=40, max_size=40))
def test_whatever_producers_send_is_judged_as_by_one_who_remembers_everything(
    actions: list[Action], appends: list[tuple[int, bool]]
) -> None:
    """G11: retries, duplicates, gaps and epochs, some batches in one append, some appends failing."""
    states, model, epochs = ProducerStates(), Model(), dict[int, int]()
    for size, succeeds in appends:
        taken, actions = actions[:size], actions[size:]
        judgement, written, end = Judgement(states, model.end), list(model.written), model.end
        for action in taken:
            sent = sent_by(action, model, epochs)
            expected = model.verdict(sent)
            assert outcome(judgement, sent) == expected
            if isinstance(expected, Verdict) and not expected.duplicate:
                model.write(sent)
        if succeeds:
            for sent, offset in model.written[len(written) :]:
                write(states, sent, offset)
        else:
            model.written, model.end = written, end


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(0, SEQUENCES - 1), st.data())
def test_the_wrap_is_a_place_like_any_other(counts: list[int], shift: int, data: st.DataObject) -> None:
    """Moving every sequence by the same amount around the circle changes no verdict."""
    here, there, sequence, end = ProducerStates(), ProducerStates(), 0, 0
    for count in counts:
        write(here, Sent(0, sequence, count), end)
        write(there, Sent(0, (sequence + shift) % SEQUENCES, count), end)
        sequence, end = sequence + count, end + count
    asked = Sent(0, data.draw(st.integers(0, sequence + 5)), data.draw(st.integers(1, 5)))
    moved = asked._replace(sequence=(asked.sequence + shift) % SEQUENCES)
    assert outcome(Judgement(here, end), asked) == outcome(Judgement(there, end), moved)
