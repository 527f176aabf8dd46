"""Every kind of request, sent through a session without a socket to a whole broker (G16)."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import pytest
from trio.testing import MockClock

from goqueue.actors.front.bounds import Bounds
from goqueue.actors.front.serving import SERVING
from goqueue.actors.front.session import BrokerSession
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import DELAY_BIT, encode_record
from goqueue.errors import GoQueueError, InvalidName, ProtocolError, UnknownGroup, UnknownTopic
from goqueue.net.wire import delays, groups, letters, messages, schemas
from goqueue.net.wire.kinds import ANSWERS, KIND_NAMES, Request
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker
from tests.net import bodies

SECOND = 1_000_000
HOUR = 3_600 * SECOND
SCHEMA = schemas.SchemaBody('{"type": "object"}')


@dataclass(frozen=True)
class Scene:
    """A topic with two messages and a delayed one, a group that was given the first, and a schema."""

    session: BrokerSession
    topic: bytes
    membership: groups.Membership
    nonce: int


async def scene(session: BrokerSession) -> Scene:
    made = await session.call(messages.CreateTopic("orders", 1, {}))
    assert isinstance(made, messages.Topics)
    topic = made.topics[0].uuid
    body = b"".join(
        (
            encode_record(0, 1, b"one"),
            encode_record(1, 1, b"two"),
            encode_record(2, 1, b"late", due=HOUR | DELAY_BIT),
        )
    )
    await session.call(messages.Produce(2, (messages.ProduceBatch(topic, 0, 0, 0, 0, 0, 0, 3, body),)))
    membership = await session.call(bodies.join("billing", "m", "test", ("orders",), {}))
    assert isinstance(membership, groups.Membership)
    await session.call(bodies.join("reports", "m", "test", ("orders",), {"mode": "stream"}))
    received = await session.call(receive(topic, membership.generation, 1))
    assert isinstance(received, groups.Received)
    await session.call(schemas.RegisterSchema("refunds", SCHEMA))
    return Scene(session, topic, membership, received.partitions[0].nonce)


def receive(topic: bytes, generation: int, messages_max: int) -> groups.Receive:
    where = (groups.ReceivePartition(topic, 0),)
    return bodies.receive("billing", "m", generation, 1_000, messages_max, 10**6, 30_000, False, where)


Case: TypeAlias = tuple[Callable[[Scene], Request], Callable[[Scene, Any], object]]
"""The request, and what has to be true of its answer."""

GOOD: dict[type[Any], Case] = {
    messages.CreateTopic: (
        lambda _: messages.CreateTopic("other", 2, {}),
        lambda _, answer: len(answer.topics[0].partitions) == 2,
    ),
    messages.AlterTopic: (
        lambda _: messages.AlterTopic("orders", {"retention_hours": 5}),
        lambda _, answer: answer.topics[0].name == "orders",
    ),
    messages.AddPartitions: (
        lambda _: messages.AddPartitions("orders", 3),
        lambda _, answer: len(answer.topics[0].partitions) == 3,
    ),
    messages.DescribeTopics: (
        lambda _: messages.DescribeTopics(None),
        lambda scene, answer: [topic.uuid for topic in answer.topics] == [scene.topic],
    ),
    messages.DeleteTopic: (lambda _: messages.DeleteTopic("orders"), lambda _, answer: answer == messages.Done()),
    messages.Purge: (lambda _: messages.Purge("orders"), lambda _, answer: answer == messages.Done()),
    messages.DeleteBefore: (
        lambda _: messages.DeleteBefore("orders", 0, 1),
        lambda _, answer: answer == messages.Done(),
    ),
    messages.RestorePartition: (
        lambda _: messages.RestorePartition("orders", 0, accept_loss=False),
        lambda _, answer: not answer.was_lost,
    ),
    messages.InitProducer: (lambda _: messages.InitProducer(0, 0), lambda _, answer: answer.producer_id > 0),
    messages.Produce: (
        lambda scene: messages.Produce(
            2, (messages.ProduceBatch(scene.topic, 0, 0, 0, 0, 0, 0, 1, encode_record(0, 1, b"more")),)
        ),
        lambda _, answer: [batch.base_offset for batch in answer.batches] == [3],
    ),
    messages.Fetch: (
        lambda scene: messages.Fetch(0, 10**6, (messages.FetchPartition(scene.topic, 0, 0, 0),)),
        lambda _, answer: b"one" in answer.partitions[0].data,
    ),
    messages.OffsetAtTime: (
        lambda scene: messages.OffsetAtTime(scene.topic, 0, 0),
        lambda _, answer: answer.offset == 0,
    ),
    messages.Stats: (lambda _: messages.Stats(), lambda _, answer: answer.counters["topics"] == 1),
    messages.CheckHealth: (
        lambda _: messages.CheckHealth(for_publish=True),
        lambda _, answer: answer == messages.HealthReport("ready", ()),
    ),
    messages.TakeSnapshot: (
        lambda _: messages.TakeSnapshot(),
        lambda scene, answer: answer.topics[0].uuid == scene.topic,
    ),
    groups.JoinGroup: (
        lambda _: bodies.join("billing", "n", "test", ("orders",), {}),
        lambda _, answer: answer.member == "n",
    ),
    groups.Heartbeat: (
        lambda scene: bodies.heartbeat("billing", "m", scene.membership.generation, 0),
        lambda scene, answer: answer.generation == scene.membership.generation,
    ),
    groups.LeaveGroup: (lambda _: bodies.leave("billing", "m"), lambda _, answer: answer == messages.Done()),
    groups.Receive: (
        lambda scene: receive(scene.topic, scene.membership.generation, 5),
        lambda _, answer: answer.partitions[0].runs == (groups.DeliveryRun(1, 1, 1),),
    ),
    groups.Settle: (
        lambda scene: groups.Settle(
            "billing",
            (bodies.settle(scene.topic, 0, scene.nonce, int(Action.ACK), (groups.DeliveryRun(0, 0, 1),)),),
        ),
        lambda _, answer: answer == groups.Settled((groups.SettledDelivery(None),)),
    ),
    groups.DescribeGroups: (
        lambda _: groups.DescribeGroups(("billing",)),
        lambda _, answer: answer.groups[0].members[0].member == "m",
    ),
    groups.AlterGroup: (
        lambda _: groups.AlterGroup("billing", {"max_deliveries": 3}, force=True),
        lambda _, answer: answer.groups[0].settings["max_deliveries"] == 3,
    ),
    groups.ResetGroup: (
        lambda _: groups.ResetGroup("billing", None, None, "latest", dry_run=True),
        lambda _, answer: answer.partitions[0].before == 0,
    ),
    groups.CommitOffsets: (
        lambda scene: bodies.commit("outside", None, 0, (groups.CommitPartition(scene.topic, 0, 1),)),
        lambda _, answer: answer == groups.OffsetsCommitted((groups.CommittedPartition(None),)),
    ),
    groups.AskOffsets: (
        lambda scene: groups.AskOffsets("reports", (groups.ReceivePartition(scene.topic, 0),)),
        lambda _, answer: answer.partitions[0].offset == 0,
    ),
    letters.CountLetters: (
        lambda _: letters.CountLetters("orders"),
        lambda _, answer: answer.partitions == (),
    ),
    groups.Why: (lambda _: groups.Why("billing"), lambda _, answer: answer.why),
    delays.ListDelayed: (
        lambda scene: delays.ListDelayed(scene.topic, 0, 0, 10, finished=False),
        lambda _, answer: [entry.offset for entry in answer.entries] == [2],
    ),
    delays.FindDelayed: (
        lambda scene: delays.FindDelayed(scene.topic, 0, b"nobody's"),
        lambda _, answer: (answer.entries, answer.pending) == ((), 1),
    ),
    delays.CancelDelayed: (
        lambda scene: delays.CancelDelayed(scene.topic, 0, 2),
        lambda _, answer: answer.is_so,
    ),
    delays.MoveDelayed: (
        lambda scene: delays.MoveDelayed(scene.topic, 0, 2, None, SECOND),
        lambda _, answer: answer.is_so,
    ),
    delays.CountDelayed: (
        lambda scene: delays.CountDelayed(scene.topic, 0, (SECOND,)),
        lambda _, answer: answer.counts == (0, 1),
    ),
    schemas.RegisterSchema: (
        lambda _: schemas.RegisterSchema("payments", schemas.SchemaBody("{}")),
        lambda _, answer: (answer.described.id, answer.described.version, answer.is_new) == (2, 1, True),
    ),
    schemas.LookUpSchema: (
        lambda _: schemas.LookUpSchema("refunds-value", SCHEMA),
        lambda _, answer: answer.described.schema == SCHEMA,
    ),
    schemas.GetSchema: (
        lambda _: schemas.GetSchema("refunds"),
        lambda _, answer: answer.described.schema == SCHEMA,
    ),
    schemas.ListSubjects: (
        lambda _: schemas.ListSubjects(prefix="ref"),
        lambda _, answer: answer == schemas.Subjects(("refunds",), has_more=False),
    ),
    schemas.ListVersions: (
        lambda _: schemas.ListVersions("refunds"),
        lambda _, answer: answer == schemas.SchemaVersions((1,), has_more=False),
    ),
    schemas.ListSchemas: (
        lambda _: schemas.ListSchemas(),
        lambda _, answer: [each.subject for each in answer.schemas] == ["refunds"],
    ),
    schemas.FindUses: (
        lambda _: schemas.FindUses(id=1),
        lambda _, answer: answer.uses == (schemas.SchemaUse("refunds", 1, 1),),
    ),
    schemas.FindReferrers: (lambda _: schemas.FindReferrers("refunds"), lambda _, answer: answer.uses == ()),
    schemas.DeleteSchema: (lambda _: schemas.DeleteSchema("refunds"), lambda _, answer: answer.versions == (1,)),
    schemas.CheckSchema: (
        lambda _: schemas.CheckSchema("refunds", SCHEMA, version=schemas.LATEST),
        lambda _, answer: answer == schemas.SchemaChecked(True, (), "BACKWARD"),
    ),
    schemas.ReadSchemaSettings: (
        lambda _: schemas.ReadSchemaSettings(None),
        lambda _, answer: answer == schemas.SchemaSettings("BACKWARD", False, "READWRITE"),
    ),
    schemas.ChangeSchemaSettings: (
        lambda _: schemas.ChangeSchemaSettings("refunds", level="FULL"),
        lambda _, answer: answer == schemas.SchemaSettings("FULL", None, None),
    ),
    schemas.CountSchemas: (
        lambda _: schemas.CountSchemas(),
        lambda _, answer: answer == schemas.RegistryCounts(1, 1, 0, 1, len(SCHEMA.text)),
    ),
}
REFUSED: dict[type[Any], tuple[Request, type[GoQueueError]]] = {
    groups.DeleteGroup: (groups.DeleteGroup("a/b"), InvalidName),
    letters.Redrive: (letters.Redrive("missing"), UnknownTopic),
    letters.Dismiss: (letters.Dismiss("missing"), UnknownTopic),
    letters.FindDecisions: (letters.FindDecisions("missing", 0, 0, 1), UnknownTopic),
    groups.SkipDamaged: (groups.SkipDamaged("missing", "orders", 0, 0, 5), UnknownGroup),
    schemas.FetchRegistry: (schemas.FetchRegistry(0), ProtocolError),  # it took no snapshot before
}


def test_every_kind_of_request_is_tried() -> None:
    assert set(GOOD) | set(REFUSED) == set(ANSWERS)


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: KIND_NAMES[kind])
async def test_a_request_is_answered(kind: type[Any], autojump_clock: MockClock) -> None:
    request, is_right = GOOD[kind]
    async with broker(SimulatedDisk(Random(0))) as running:
        there = await scene(BrokerSession(running, SERVING, Bounds()))
        answer = await there.session.call(request(there))
        assert type(answer) is ANSWERS[kind]
        assert is_right(there, answer), answer


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: KIND_NAMES[kind])
async def test_a_request_is_refused_with_its_error(kind: type[Any], autojump_clock: MockClock) -> None:
    request, error = REFUSED[kind]
    async with broker(SimulatedDisk(Random(0))) as running:
        session = BrokerSession(running, SERVING, Bounds())
        with pytest.raises(error):
            await session.call(request)
