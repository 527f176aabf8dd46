"""What a partition remembers of its producers (G11)."""

from goqueue.core.log.producers import FORGOTTEN_AFTER, ProducerStates, WrittenBatch


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


CLIENT = 2**62
"""From here on ids are those of clients."""


def test_a_partition_remembers_the_newest_of_its_clients_producers() -> None:
    states = ProducerStates(clients_max=2)
    for number, time in ((1, 0), (2, 1), (1, 2), (3, 3)):
        states.note(CLIENT + number, 0, WrittenBatch(0, 0, time), time)
    assert states.ids() == [CLIENT + 1, CLIENT + 3]
    assert states.forgotten_to == CLIENT + 2


def test_the_brokers_own_producers_do_not_count_and_do_not_go() -> None:
    states = ProducerStates(clients_max=1)
    for number in range(1, 50):
        states.note(number, 0, WrittenBatch(0, 0, number), number)
        states.note(CLIENT + number, 0, WrittenBatch(0, 0, number), number)
    assert states.clients == 1
    assert all(states.get(number) for number in range(1, 50))


def test_an_id_that_no_broker_gave_out_makes_nobody_else_unknown() -> None:
    """One from far ahead would make every id below it look forgotten."""
    states = ProducerStates(clients_max=1)
    states.note(2**63 - 1, 0, WrittenBatch(0, 0, 0), 5)
    states.note(CLIENT + 1, 0, WrittenBatch(0, 0, 1), 6)
    assert states.ids() == [CLIENT + 1]
    assert not states.may_be_forgotten(CLIENT + 2)


def test_a_replayed_batch_that_is_known_changes_nothing() -> None:
    states = states_after((1, 0, 0, 0), (1, 1, 1, 1), (1, 1, 2, 2))
    expected = states.snapshot()
    for epoch, sequence in ((0, 0), (1, 1), (1, 2)):
        states.replay(1, epoch, WrittenBatch(sequence, sequence, 100 + sequence), sequence)
    assert states.snapshot() == expected


def test_what_lies_behind_a_cut_is_not_known() -> None:
    states = states_after((1, 0, 0, 0), (1, 0, 1, 1), (2, 0, 1, 1))
    states.cut(101)
    assert states.ids() == [1]
    assert states.judge(1, 0, 1, 1) is None
