"""What a partition remembers of its producers (G11)."""

from goqueue.core.producers import FORGOTTEN_AFTER, ProducerStates, WrittenBatch


def states_after(*notes: tuple[int, int, int, int]) -> ProducerStates:
    states = ProducerStates()
    for producer, epoch, sequence, time in notes:
        states.note(producer, epoch, WrittenBatch(sequence, sequence, 100 + sequence), time)
    return states


def test_the_last_five_batches_of_a_producer_are_remembered() -> None:
    state = states_after(*[(1, 0, sequence, 0) for sequence in range(7)]).get(1)
    assert state is not None
    assert [batch.first_sequence for batch in state.batches] == [2, 3, 4, 5, 6]


def test_a_new_epoch_begins_anew() -> None:
    state = states_after((1, 0, 0, 0), (1, 0, 1, 0), (1, 1, 0, 0)).get(1)
    assert state is not None
    assert (state.epoch, list(state.batches)) == (1, [WrittenBatch(0, 0, 100)])


def test_a_producer_is_forgotten_after_a_day_of_silence() -> None:
    states = states_after((1, 0, 0, 0), (2, 0, 0, 1))
    states.forget_silent(FORGOTTEN_AFTER)
    assert states.get(1) is None
    assert states.get(2) is not None
    assert len(states) == 1


def test_a_snapshot_gives_back_the_same_state_and_shares_nothing_with_it() -> None:
    states = states_after((1, 0, 0, 5), (2, 3, 9, 6))
    restored = ProducerStates.restored(states.snapshot())
    assert restored.snapshot() == states.snapshot()
    restored.note(1, 0, WrittenBatch(1, 1, 0), 7)
    assert restored.snapshot() != states.snapshot()
