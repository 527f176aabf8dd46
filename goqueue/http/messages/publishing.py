"""Publishes gathered messages: one request of the wire after the other, until each message has its outcome.

The batches of a partition go one after the other: only so the order holds when the broker refuses some of a batch.
What it refuses record by record is settled by itself, and the rest of the batch is sent again without these. When a
batch fails as a whole, those behind it fail, too: written alone they would be out of order.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, cast

import trio

from goqueue.core.sending.chunk import Chunk
from goqueue.core.sending.queue import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, OutBatch
from goqueue.errors import (
    BatchRefused,
    DeliveryUnknown,
    DuplicateMessage,
    GoQueueError,
    UnknownTopic,
)
from goqueue.http.messages.incoming import GatheredMessages, Result
from goqueue.http.routing.topics import Ask, NamedTopic
from goqueue.http.server.errors import status_of
from goqueue.net.wire.failures import error_body, error_of
from goqueue.net.wire.messages import Produce, ProduceBatch, Produced, ProducedBatch
from goqueue.storage.slices import Slices
from goqueue.types import Acks

PUBLISH_SECONDS = 30.0
"""Limit of the wait for the confirmation."""
PARTLY = 207
NAMED_MESSAGES_MAX = 1_000
"""Limit of the messages with an id in a batch: when they are repeats, each is refused by itself."""


class PublishRun:
    def __init__(self, ask: Ask, topic: NamedTopic, acks: Acks, gathered: GatheredMessages) -> None:
        self.results: list[Result | None] = [None] * gathered.count
        self.statuses: set[int] = set()
        """The statuses of the messages that were refused."""
        self.topic_is_gone = False
        """The topic's UUID was refused, and nothing was written under it."""
        self._ask = ask
        self._topic = topic
        self._acks = acks
        self._waiting: dict[int, deque[OutBatch]] = {}
        self._refused = gathered.refused
        for number, portion in gathered.portions.items():
            self._waiting[number] = deque(_batches(portion.chunks))

    async def run(self) -> None:
        slices = Slices()
        for place, error in self._refused.items():
            self._refuse([place], error)
            await slices.step()
        with trio.move_on_after(PUBLISH_SECONDS):
            while self._waiting and not self.topic_is_gone:
                await self._round()
            return
        error = DeliveryUnknown(
            f"not confirmed within {PUBLISH_SECONDS:g} s; it may have been written or not; repeat it with an id"
        )
        for number in list(self._waiting):
            self._fail(number, error)

    def status(self) -> int:
        if not self.statuses:
            return 200
        return PARTLY if any(result and "code" not in result for result in self.results) else max(self.statuses)

    async def _round(self) -> None:
        """The first batch of each partition."""
        batches = {number: batches[0] for number, batches in self._waiting.items()}
        try:
            answer = cast(Produced, await self._ask(Produce(self._acks, await self._bodies(batches))))
        except GoQueueError as error:
            for number in batches:
                self._fail(number, error)
            return
        for (number, batch), produced in zip(batches.items(), answer.batches, strict=True):
            self._take(number, batch, produced)

    async def _bodies(self, batches: dict[int, OutBatch]) -> tuple[ProduceBatch, ...]:
        bodies, slices = list[ProduceBatch](), Slices()
        for number, batch in batches.items():
            bodies.append(ProduceBatch(self._topic.uuid, number, 0, 0, 0, 0, 0, batch.count, batch.body()))
            await slices.step()
        return tuple(bodies)

    def _take(self, number: int, batch: OutBatch, produced: ProducedBatch) -> None:
        if produced.error is None:
            self._confirm(number, batch, produced.base_offset)
            self._drop(number)
            return
        error = error_of(produced.error)
        if isinstance(error, BatchRefused):
            self._take_bad_records(number, batch, error)
        elif isinstance(error, UnknownTopic) and not any(self.results):
            self.topic_is_gone = True
        else:
            self._fail(number, error)

    def _confirm(self, number: int, batch: OutBatch, base: int | None) -> None:
        results = self.results
        for chunk in batch.chunks:
            if base is None:
                for place in chunk.places:
                    results[place] = {"partition": number, "offset": None}
            else:
                for offset, place in enumerate(chunk.places, base):
                    results[place] = {"partition": number, "offset": offset}
                base += len(chunk)

    def _drop(self, number: int) -> None:
        batches = self._waiting[number]
        batches.popleft()
        if not batches:
            del self._waiting[number]

    def _take_bad_records(self, number: int, batch: OutBatch, refusal: BatchRefused) -> None:
        errors = {bad.index: bad.error for bad in refusal.records}
        bad, kept = batch.split(errors)
        records = [(chunk, at) for chunk in bad for at in range(len(chunk))]
        again = list[Chunk]()
        for (chunk, at), error in zip(records, [errors[each] for each in sorted(errors)], strict=True):
            place = chunk.places[at]
            if not isinstance(error, DuplicateMessage):
                self._refuse([place], error)
            elif error.offset is None:  # of a message of the same batch, whose offset is not known yet
                again.append(chunk.picked([at]))
            else:
                self.results[place] = {"partition": number, "offset": error.offset, "repeated": True}
        batches = self._waiting[number]
        batches.popleft()
        if again:
            batches.appendleft(OutBatch(again, sum(map(len, again))))
        if kept:
            batches.appendleft(OutBatch(kept, sum(map(len, kept))))
        if not batches:
            del self._waiting[number]

    def _fail(self, number: int, error: GoQueueError) -> None:
        for batch in self._waiting.pop(number):
            self._refuse([place for chunk in batch.chunks for place in chunk.places], error)

    def _refuse(self, places: Iterable[int], error: GoQueueError) -> None:
        result = error_in_json(error)
        self.statuses.add(status_of(error))
        for place in places:
            self.results[place] = result


def error_in_json(error: GoQueueError) -> dict[str, Any]:
    body = error_body(error)
    return {
        "code": body.code,
        "message": body.message,
        "retryable": body.retryable,
        "details": dict(body.details),
    }


def _batches(chunks: Sequence[Chunk]) -> Iterable[OutBatch]:
    """As large as batches may be."""
    gathered, size, count = list[Chunk](), 0, 0
    rest = deque(chunks)
    while rest:
        chunk = rest.popleft()
        chunk_size, most = chunk.size, NAMED_MESSAGES_MAX if chunk.ids else BATCH_MESSAGES_MAX
        if gathered and (size + chunk_size > BATCH_BYTES_MAX or count + len(chunk) > most):
            yield OutBatch(gathered, count)
            gathered, size, count = [], 0, 0
        if chunk_size > BATCH_BYTES_MAX or len(chunk) > most:
            chunk, behind = chunk.cut(BATCH_BYTES_MAX, most)
            if len(behind):
                rest.appendleft(behind)
        gathered.append(chunk)
        size, count = size + chunk.size, count + len(chunk)
    if gathered:
        yield OutBatch(gathered, count)
