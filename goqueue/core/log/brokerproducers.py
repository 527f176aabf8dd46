"""The sequences of the broker's own producers, which carry dead letters.

A sequence is journaled where the messages come from, and nothing is left out there. Here it may jump ahead: the
dead-letter topic was deleted and made again, what lay between went to other partitions, or nothing was carried for
so long that the producer was forgotten. None of that is a gap. What lies behind stays a repeat (G11).
"""

from goqueue.core.log.producers import SEQUENCES, ProducerState, ProducerStates, WrittenBatch
from goqueue.core.records.batch import Producer
from goqueue.types import Microseconds, Offset


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
