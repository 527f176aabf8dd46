"""Holds the messages of producers to the schemas of their topic, before they are appended (G16).

A batch is judged in slices, between which other partitions go on. This partition takes up nothing else meanwhile,
and the order of its batches stays. A topic without schemas costs a look-up for each batch, which is not opened.
"""

import logging
from collections.abc import Callable, Sequence

import trio

from goqueue.actors.partition.arrivals import records_in
from goqueue.actors.statistics.schemas import SchemaCounts
from goqueue.core.log.admission import Admission
from goqueue.core.records.batch import Batch
from goqueue.core.schemas.validation.judging import SchemaJudgement, SchemaVerdict
from goqueue.core.schemas.validation.topicschemas import TopicSchemas
from goqueue.errors import BadRecord, BatchRefused
from goqueue.storage.slices import Slices

logger = logging.getLogger("goqueue.schemas")

WARN_SECONDS = 60.0
"""A partition logs one line in this time about messages that it accepts though they do not fit."""


def no_schemas(_: str) -> None:
    """For a topic that has none."""


class MessageValidation:
    def __init__(self, topic: str, schemas: Callable[[str], TopicSchemas | None], counts: SchemaCounts) -> None:
        """`schemas` are those in force; they are asked for at each batch."""
        self._topic = topic
        self._schemas = schemas
        self._counts = counts
        self._judgement: SchemaJudgement | None = None
        self._judges_by: tuple[TopicSchemas, int] | None = None
        self._warned_at = float("-inf")
        self._unlogged = 0

    def schemas(self) -> TopicSchemas | None:
        """Those in force; None for almost every topic, so this is no coroutine."""
        return self._schemas(self._topic)

    async def check(self, batch: Batch, schemas: TopicSchemas, admission: Admission) -> None:
        """`BatchRefused` names each message that does not fit."""
        verdict = await self._judged(batch, self._judgement_by(schemas, admission.schema_value_bytes))
        series = self._counts.of[self._topic]
        series.accepted += verdict.judged - len(verdict.bad)
        if not verdict.bad:
            return
        if not admission.only_warns:
            series.refused += len(verdict.bad)
            raise BatchRefused(verdict.bad)
        series.warned += len(verdict.bad)
        self._warn(verdict.bad)

    async def _judged(self, batch: Batch, judgement: SchemaJudgement) -> SchemaVerdict:
        began, slices = trio.current_time(), Slices()
        work = judgement.verdict(records_in(batch), batch.record_count)
        while True:
            try:
                next(work)
            except StopIteration as end:
                self._counts.seconds.add(trio.current_time() - began)
                verdict: SchemaVerdict = end.value
                return verdict
            await slices.step()

    def _judgement_by(self, schemas: TopicSchemas, value_bytes_max: int) -> SchemaJudgement:
        """The same one while the schemas stay. They are told apart by their object."""
        held = self._judges_by
        if self._judgement is None or held is None or held[0] is not schemas or held[1] != value_bytes_max:
            self._judgement = SchemaJudgement(schemas, value_bytes_max=value_bytes_max)
            self._judges_by = schemas, value_bytes_max
        return self._judgement

    def _warn(self, bad: Sequence[BadRecord]) -> None:
        self._unlogged += len(bad)
        now = trio.current_time()
        if now - self._warned_at >= WARN_SECONDS:
            logger.warning(
                "topic %s: %d messages accepted that do not fit their schema; the last: %s",
                self._topic,
                self._unlogged,
                bad[-1].error.message,
            )
            self._warned_at, self._unlogged = now, 0
