"""What a partition remembers of its producers: enough to answer a repeated batch with its first offset (G11).

Of each producer the last five batches of its newest epoch are kept, as (first sequence, last sequence, base
offset). The state is a pure function of the envelopes in the log, so a snapshot at some offset and the
envelopes behind it give it back after a crash.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from goqueue.types import Microseconds, Offset

BATCHES_REMEMBERED = 5
FORGOTTEN_AFTER: Microseconds = 24 * 3600 * 1_000_000
"""Of silence, counted in append time."""


class WrittenBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
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
