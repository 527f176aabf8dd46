"""Which of the batches that arrived together are appended (G11).

Each is judged as if those before it were written: first by its producer's sequence, then by the ids of its
messages. A batch in which any message repeats an id is refused whole, and the refusal names exactly those. It has
used no sequence and claimed no id: its producer leaves them out and sends the rest again, with the same sequence.

Judging changes nothing outside. Appended batches are noted afterwards; if the append fails, nothing was counted.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from goqueue.core.log.messageids import Claims, GivenId, MessageIds
from goqueue.core.log.producers import NO_PRODUCER_ID, Judgement, ProducerStates, Verdict
from goqueue.core.records.batch import Batch
from goqueue.errors import BadRecord, BatchRefused, DuplicateMessage, GoQueueError, InvalidMessage
from goqueue.types import Microseconds, Offset


class AppendJudgement:
    """The batches of one append, in order. Drop it afterwards."""

    def __init__(self, states: ProducerStates, ids: MessageIds, end_offset: Offset, now: Microseconds) -> None:
        self._states = states
        self._sequences = Judgement(states, end_offset)
        self._claims = Claims(ids, now)
        self._accepted: defaultdict[int, list[Batch]] = defaultdict(list)

    def judge(self, batch: Batch, given: Sequence[GivenId], refusal: BatchRefused | None = None) -> Verdict:
        """Accepted, or a duplicate by its sequence; or a typed error, after which the next may be judged.

        `refusal` is what a rule has against it. A repeat was written when no rule was against it, and is answered
        as any repeat.
        """
        repeats = self._claims.repeats(given) if given else {}
        if refusal is not None and not self._is_duplicate(batch):
            raise _refusal(repeats, refusal)
        if repeats and self._is_next(batch):
            raise _refusal(repeats)
        verdict = self._sequences.judge(*batch.producer, batch.record_count)
        if not verdict.duplicate:
            self._accept(batch, given, verdict.base_offset)
        return verdict

    def _is_next(self, batch: Batch) -> bool:
        """Whether its sequence lets it be written."""
        verdict = self._tried(batch)
        return verdict is not None and not verdict.duplicate

    def _is_duplicate(self, batch: Batch) -> bool:
        verdict = self._tried(batch)
        return verdict is not None and verdict.duplicate

    def _tried(self, batch: Batch) -> Verdict | None:
        """What its sequence says; None for an error. To judge is to count, so this asks a judgement that is thrown
        away."""
        trial = Judgement(self._states, 0)
        for before in self._accepted[batch.producer.id]:
            trial.judge(*before.producer, before.record_count)
        try:
            return trial.judge(*batch.producer, batch.record_count)
        except GoQueueError:
            return None

    def _accept(self, batch: Batch, given: Sequence[GivenId], base_offset: Offset) -> None:
        if batch.producer.id != NO_PRODUCER_ID:
            self._accepted[batch.producer.id].append(batch)
        for relative_offset, message_id, _ in given:
            self._claims.claim(message_id, base_offset + relative_offset)


def originals_end(refusal: BatchRefused) -> Offset:
    """The offset behind the last original that a refusal names."""
    named = [bad.error.offset for bad in refusal.records if isinstance(bad.error, DuplicateMessage)]
    return max((offset + 1 for offset in named if offset is not None), default=0)


def _refusal(repeats: Mapping[int, Offset | None], rules: BatchRefused | None = None) -> BatchRefused:
    """Each bad record once. One that repeats an id was written, whatever a rule says by now."""
    bad: dict[int, InvalidMessage] = {} if rules is None else {each.index: each.error for each in rules.records}
    bad |= {index: _duplicate(first) for index, first in repeats.items()}
    return BatchRefused([BadRecord(index, bad[index]) for index in sorted(bad)])


def _duplicate(first: Offset | None) -> DuplicateMessage:
    if first is None:
        return DuplicateMessage("an earlier message of this batch has the same id; send that one first, then this")
    return DuplicateMessage(f"its id is that of the message at offset {first}; take it as published", offset=first)
