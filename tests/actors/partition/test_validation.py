"""A partition holds what producers send to the schemas of its topic, and nothing else. (G14, G16)"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from goqueue.actors.partition.partition import Partition
from goqueue.actors.partition.requests import Configure, Fetch, Produce, Produced
from goqueue.actors.partition.validation import WARN_SECONDS, MessageValidation
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.actors.statistics.schemas import SchemaCounts, SchemaSeries
from goqueue.config import LogConfig
from goqueue.core.log.admission import Admission
from goqueue.core.records.batch import Attribute, Producer, compress
from goqueue.core.records.record import MESSAGE_ID_HEADER, encode_record
from goqueue.core.schemas.validation.topicschemas import TopicSchemas
from goqueue.core.topics.config import TopicConfig
from goqueue.errors import BatchRefused, DuplicateMessage, SchemaRefused
from goqueue.storage.log.volume import Volume
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.core.schemas.given import subject, topic
from tests.storage.logs import records_in

NUMBERS, TEXTS = topic(subject({"type": "integer"})), topic(subject({"type": "string"}))
LARGE = 60_000
"""Messages of a batch that takes many slices."""


class Schemas:
    """Those in force, as a registry shows them."""

    def __init__(self, schemas: TopicSchemas | None) -> None:
        self.in_force = schemas

    def of(self, name: str) -> TopicSchemas | None:
        return self.in_force if name == "orders" else None


class Stage:
    def __init__(self, schemas: TopicSchemas | None, config: TopicConfig) -> None:
        self.schemas = Schemas(schemas)
        self.counts = SchemaCounts()
        self.config = config
        self.volume = Volume(SimulatedDisk(Random(0)))

    @property
    def counted(self) -> SchemaSeries:
        return self.counts.of["orders"]

    def partition(self, number: int) -> Partition:
        return Partition(
            self.volume,
            SimulatedClock(),
            f"/data/logs/orders/{number}",
            LogConfig(),
            admission=Admission.of(self.config, 1),
            validation=MessageValidation("orders", self.schemas.of, self.counts),
            disk_free_min=0,
        )


@asynccontextmanager
async def staged(
    schemas: TopicSchemas | None = NUMBERS, *, partitions: int = 1, **config: Any
) -> AsyncIterator[tuple[Stage, list[ActorRef]]]:
    stage = Stage(schemas, TopicConfig(**config))
    async with trio.open_nursery() as nursery:
        await nursery.start(stage.volume.run)
        async with running(ChildSpec("0", lambda: stage.partition(0))) as first:
            if partitions == 1:
                yield stage, [first]
            else:
                async with running(ChildSpec("1", lambda: stage.partition(1))) as second:
                    yield stage, [first, second]
        nursery.cancel_scope.cancel()


def batch(*values: bytes, acks: Acks = Acks.LEADER, by_broker: bool = False, **others: Any) -> Produce:
    body = b"".join(encode_record(number, 1, value, **others) for number, value in enumerate(values))
    return Produce(body, len(values), acks=acks, by_broker=by_broker)


async def written(ref: ActorRef) -> list[bytes]:
    await ref.call(batch(b"0", acks=Acks.ALL))  # all is durable then, and can be read
    return [record.value for record in records_in((await ref.call(Fetch(0, 10_000_000))).data)][:-1]


async def refused(ref: ActorRef, *values: bytes, **others: Any) -> Sequence[int]:
    with pytest.raises(BatchRefused) as caught:
        await ref.call(batch(*values, **others))
    assert all(isinstance(bad.error, SchemaRefused) for bad in caught.value.records)
    return [bad.index for bad in caught.value.records]


async def test_a_batch_with_bad_messages_is_refused_as_a_whole_and_each_is_named(autojump_clock: MockClock) -> None:
    async with staged() as (stage, [ref]):
        assert await refused(ref, b"1", b"x", b"2", b'"y"') == [1, 3]
        await ref.call(batch(b"1", b"2"))
        assert await written(ref) == [b"1", b"2"]
        assert (stage.counted.accepted, stage.counted.refused, stage.counted.warned) == (5, 2, 0)
        assert stage.counts.seconds.count == 3


async def test_compressed_batches_are_opened(autojump_clock: MockClock) -> None:
    async with staged() as (_, [ref]):
        for value, is_good in ((b"1", True), (b"x", False)):
            plain = batch(value, value)
            message = Produce(compress(plain.body), 2, attributes=int(Attribute.ZSTD), acks=Acks.LEADER)
            if is_good:
                await ref.call(message)
            else:
                with pytest.raises(BatchRefused):
                    await ref.call(message)


async def test_delayed_messages_and_those_with_headers_are_held_to_their_schema(autojump_clock: MockClock) -> None:
    async with staged() as (_, [ref]):
        assert await refused(ref, b"x", due=2**50) == [0]
        assert await refused(ref, b"x", due=2**50, headers={"trace": b"1"}, key=b"k") == [0]
        await ref.call(batch(b"1", due=2**50, headers={"trace": b"1"}, key=b"k"))


async def test_what_the_broker_moves_is_held_to_nothing(autojump_clock: MockClock) -> None:
    """It was checked when it was first accepted; the schema may be another one since."""
    async with staged() as (stage, [ref]):
        await ref.call(batch(b"x", by_broker=True))
        assert await written(ref) == [b"x"]
        assert stage.counts.seconds.count == 1, "of the one that looks"


async def test_a_topic_without_schemas_does_not_open_its_batches(autojump_clock: MockClock) -> None:
    async with staged(None) as (stage, [ref]):
        await ref.call(batch(b"x"))
        assert stage.counts.seconds.count == 0
        assert len(stage.counts.of) == 0


async def test_the_schemas_in_force_are_asked_for_at_each_batch(autojump_clock: MockClock) -> None:
    async with staged(None) as (stage, [ref]):
        await ref.call(batch(b"x"))
        stage.schemas.in_force = NUMBERS
        assert await refused(ref, b"x") == [0]
        stage.schemas.in_force = TEXTS
        assert await refused(ref, b"1") == [0]
        await ref.call(batch(b'"x"'))
        stage.schemas.in_force = None
        await ref.call(batch(b"x"))


async def test_a_repeat_is_answered_though_the_schema_is_another_one_by_now(autojump_clock: MockClock) -> None:
    """G11: it was accepted, and its answer was lost."""
    async with staged() as (stage, [ref]):
        sent = replace(batch(b"1", b"2", acks=Acks.ALL), producer=Producer(7, 0, 0))
        first = await ref.call(sent)
        stage.schemas.in_force = TEXTS
        again = await ref.call(sent)
        assert again.base_offset == first.base_offset
        with pytest.raises(BatchRefused):
            await ref.call(replace(sent, producer=Producer(7, 0, 2)))
        await ref.call(replace(batch(b'"x"'), producer=Producer(7, 0, 2)))


async def test_a_message_with_an_id_is_not_refused_when_it_was_accepted_before(autojump_clock: MockClock) -> None:
    async with staged() as (stage, [ref]):
        sent = batch(b"1", headers={MESSAGE_ID_HEADER: b"bill 7"}, acks=Acks.ALL)
        first = await ref.call(sent)
        stage.schemas.in_force = TEXTS
        with pytest.raises(BatchRefused) as repeated:
            await ref.call(sent)
        [bad] = repeated.value.records
        assert isinstance(bad.error, DuplicateMessage)
        assert bad.error.offset == first.base_offset


async def test_off_holds_messages_to_nothing(autojump_clock: MockClock) -> None:
    async with staged(schema_validation="off") as (stage, [ref]):
        await ref.call(batch(b"x"))
        assert stage.counts.seconds.count == 0
        await ref.call(Configure(LogConfig(), Admission.of(TopicConfig(), 1)))
        assert await refused(ref, b"x") == [0]


async def test_warn_accepts_and_counts_and_logs_once_a_minute(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "goqueue.schemas")
    async with staged(schema_validation="warn") as (stage, [ref]):
        for _ in range(3):
            await ref.call(batch(b"1", b"a secret", b"x"))
        assert (stage.counted.accepted, stage.counted.refused, stage.counted.warned) == (3, 0, 6)
        assert [record.getMessage() for record in caplog.records] == [
            "topic orders: 2 messages accepted that do not fit their schema; the last: $: no JSON, unexpected "
            "character, expected a JSON value at character 0; subject orders-value, version 1"
        ]
        await trio.sleep(WARN_SECONDS)
        await ref.call(batch(b"x"))
        assert len(caplog.records) == 2
        assert caplog.records[1].getMessage().startswith("topic orders: 5 messages accepted")
        assert len(await written(ref)) == 10


async def test_the_bound_of_values_is_that_of_the_topic(autojump_clock: MockClock) -> None:
    async with staged(TEXTS, schema_value_bytes=6) as (_, [ref]):
        await ref.call(batch(b'"1234"'))
        with pytest.raises(BatchRefused) as caught:
            await ref.call(batch(b'"1234"', b'"12345"'))
        assert [(bad.index, bad.error.code) for bad in caught.value.records] == [(1, "too_large")]


async def test_batches_keep_their_order_while_a_large_one_is_judged() -> None:
    """On Trio's own clock, whose slices end."""
    async with staged() as (_, [ref]), trio.open_nursery() as nursery:
        offsets: dict[str, int] = {}

        async def publish(name: str, *values: bytes) -> None:
            answer: Produced = await ref.call(batch(*values))
            offsets[name] = answer.base_offset

        nursery.start_soon(publish, "large", *[b"1"] * LARGE)
        await trio.lowlevel.checkpoint()
        nursery.start_soon(publish, "small", b"2")
    assert offsets == {"large": 0, "small": LARGE}


async def test_other_partitions_go_on_while_a_large_batch_is_judged() -> None:
    async with staged(partitions=2) as (_, [busy, other]), trio.open_nursery() as nursery:
        answered: list[str] = []

        async def publish(name: str, ref: ActorRef, *values: bytes) -> None:
            await ref.call(batch(*values))
            answered.append(name)

        nursery.start_soon(publish, "large", busy, *[b"1"] * LARGE)
        await trio.lowlevel.checkpoint()
        nursery.start_soon(publish, "small", other, b"2")
    assert answered == ["small", "large"]


async def test_a_message_whose_id_was_published_is_told_as_such_whatever_its_schema_is_by_now(
    autojump_clock: MockClock,
) -> None:
    async with staged(None) as (stage, [ref]):
        await ref.call(batch(b"x", headers={MESSAGE_ID_HEADER: b"one"}))
        stage.schemas.in_force = NUMBERS
        both = bytes(batch(b"y").body) + encode_record(1, 1, b"x", headers={MESSAGE_ID_HEADER: b"one"})
        with pytest.raises(BatchRefused) as caught:
            await ref.call(Produce(both, 2, acks=Acks.LEADER))
        assert [(bad.index, bad.error.code) for bad in caught.value.records] == [
            (0, "schema_refused"),
            (1, "duplicate_message"),
        ]


async def test_the_same_holds_for_the_other_rules_of_a_topic(autojump_clock: MockClock) -> None:
    async with staged(None) as (_, [ref]):
        message = replace(batch(b"large"), producer=Producer(7, 0, 0))
        assert (await ref.call(message)).base_offset == 0
        await ref.call(Configure(LogConfig(), Admission(message_bytes_max=3)))
        assert (await ref.call(message)).base_offset == 0
        with pytest.raises(BatchRefused):
            await ref.call(replace(message, producer=Producer(7, 0, 1)))
