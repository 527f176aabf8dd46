"""The broker's own producers may jump ahead, and still are never written twice."""

import pytest

from goqueue.core.log.producers import Judgement, ProducerStates, WrittenBatch, let_jump_ahead
from goqueue.core.records.batch import Producer
from goqueue.errors import Fenced


def judged(states: ProducerStates, sequence: int, count: int, epoch: int = 0) -> int | None:
    """Its first offset if it is a repeat; None if it was written, which is noted."""
    producer = Producer(7, epoch, sequence)
    let_jump_ahead(states, producer, 100, 1)
    verdict = Judgement(states, 100).judge(*producer, count)
    if verdict.duplicate:
        return verdict.base_offset
    states.note(7, epoch, WrittenBatch(sequence, sequence + count - 1, 100), 1)
    return None


@pytest.mark.parametrize("sequence", [0, 5, 2**32 - 1])
def test_a_producer_that_is_not_known_may_begin_anywhere(sequence: int) -> None:
    states = ProducerStates()
    assert judged(states, sequence, 1) is None
    assert judged(states, sequence, 1) == 100


def test_it_may_leave_sequences_out_and_what_lies_behind_is_a_repeat() -> None:
    """G11"""
    states = ProducerStates()
    assert judged(states, 0, 3) is None
    assert judged(states, 3, 2) is None
    assert judged(states, 50, 4) is None
    assert judged(states, 50, 4) == 100
    assert judged(states, 3, 2) == 100


def test_a_newer_epoch_may_begin_anywhere_and_an_older_one_is_fenced() -> None:
    states = ProducerStates()
    assert judged(states, 9, 1, epoch=1) is None
    assert judged(states, 20, 1, epoch=2) is None
    with pytest.raises(Fenced):
        judged(states, 30, 1, epoch=1)
