"""A connection of a broker, driven by a bare session over memory: what a client of any language could do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.front.answers import BYTES_WAITING_MAX
from goqueue.actors.front.bounds import Bounds
from goqueue.actors.front.connection import UNFINISHED_BYTES_MAX, Connection
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.batch import Attribute
from goqueue.core.records.record import Flag, encode_record
from goqueue.errors import GoQueueError, UnknownTopic
from goqueue.net.session.events import AnswerReceived, RequestFailed, SessionClosed
from goqueue.net.transport.transport import MemoryTransport, memory_transport_pair
from goqueue.net.wire import groups as group
from goqueue.net.wire import messages as wire
from goqueue.net.wire.codec import encode
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker
from tests.actors.front.bareclient import BareClient
from tests.net import bodies
from tests.storage.logs import records_in


@asynccontextmanager
async def connected(disk: SimulatedDisk) -> AsyncIterator[BareClient]:
    async with broker(disk) as running, trio.open_nursery() as nursery:
        ours, theirs = memory_transport_pair()
        connection = Connection(running, theirs)
        nursery.start_soon(connection.run)
        client = BareClient(ours, connection)
        yield client
        await ours.aclose()


async def made(client: BareClient, name: str = "orders", partitions: int = 1) -> wire.TopicDescription:
    answer = await client.ask(wire.CreateTopic(name, partitions, {}))
    assert isinstance(answer, wire.Topics)
    return answer.topics[0]


def batch(topic: wire.TopicDescription, *values: bytes, sequence: int = 0, partition: int = 0) -> wire.ProduceBatch:
    body = b"".join(encode_record(number, 1, value) for number, value in enumerate(values))
    return wire.ProduceBatch(topic.uuid, partition, 0, 2**62, 0, sequence, 0, len(values), body)


async def fetched(
    client: BareClient, topic: wire.TopicDescription, offset: int = 0, wait_ms: int = 0
) -> list[bytes]:
    request = wire.Fetch(wait_ms, 10**6, (wire.FetchPartition(topic.uuid, 0, 0, offset),))
    answer = await client.ask(request)
    assert isinstance(answer, wire.Fetched)
    [partition] = answer.partitions
    assert partition.error is None
    return [record.value for record in records_in(partition.data)]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def test_a_message_is_published_and_read_back(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with connected(disk) as client:
        welcome = (await client.greet()).welcome
        assert (welcome.protocol_version, welcome.node) == (1, "node-1")
        topic = await made(client)
        answer = await client.ask(wire.Produce(2, (batch(topic, b"a", b"b"),)))
        assert isinstance(answer, wire.Produced)
        assert answer.batches[0].base_offset == 0
        assert await fetched(client, topic) == [b"a", b"b"]


async def test_batches_reach_their_partition_in_the_order_of_the_frames(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G11: many requests under way at once, and no gap in the sequence."""
    async with connected(disk) as client:
        await client.greet()
        topic = await made(client)
        for sequence in range(100):
            client.session.request(wire.Produce(2, (batch(topic, b"%d" % sequence, sequence=sequence),)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.flush)
            for _ in range(100):
                event = await client.next_event()
                assert isinstance(event, AnswerReceived)
                assert isinstance(event.answer, wire.Produced)
                assert event.answer.batches[0].error is None
        assert await fetched(client, topic) == [b"%d" % sequence for sequence in range(100)]


async def test_answers_of_one_turn_are_sent_together(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(disk) as client:
        await client.greet()
        topic = await made(client)
        sent: list[int] = []
        transport = client.connection._transport
        assert isinstance(transport, MemoryTransport)
        send = transport.send

        async def noting(*frames: bytes) -> None:
            sent.append(len(frames))
            await send(*frames)

        monkeypatch.setattr(transport, "send", noting)
        for sequence in range(6):
            client.session.request(wire.Produce(2, (batch(topic, b"x", sequence=sequence),)))
        await client.flush()
        for _ in range(6):
            assert isinstance(await client.next_event(), AnswerReceived)
        assert sum(sent) >= 5, "at most the last one is posted"
        assert len(sent) < 3


async def test_errors_go_to_their_request_and_the_connection_lives(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G14"""
    async with connected(disk) as client:
        await client.greet()
        topic = await made(client)
        for request, code in (
            (wire.CreateTopic("orders", 1, {}), "topic_exists"),
            (wire.CreateTopic("a/b", 1, {}), "invalid_name"),
            (wire.CreateTopic("other", 1, {"nonsense": 1}), "invalid_config"),
            (wire.DescribeTopics(("missing",)), "unknown_topic"),
            (wire.DeleteBefore("orders", 0, 99), "offset_out_of_range"),
            (wire.DeleteBefore("orders", 9, 0), "unknown_partition"),
            (wire.OffsetAtTime(bytes(16), 0, 0), "unknown_topic"),
        ):
            with pytest.raises(GoQueueError) as error:
                await client.ask(request)
            assert error.value.code == code
        answer = await client.ask(wire.Produce(2, (batch(topic, b"x", partition=5), batch(topic, b"good"))))
        assert isinstance(answer, wire.Produced)
        refused, good = answer.batches
        assert refused.error is not None
        assert (refused.error.code, good.base_offset) == ("unknown_partition", 0)


async def test_a_bad_record_is_named_over_the_wire(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G14"""
    async with connected(disk) as client:
        await client.greet()
        topic = await made(client)
        body = encode_record(0, 1, b"good") + encode_record(1, 1, b"bad", priority=9)
        bad = wire.ProduceBatch(topic.uuid, 0, 0, 0, 0, 0, 0, 2, body)
        answer = await client.ask(wire.Produce(2, (bad,)))
        assert isinstance(answer, wire.Produced)
        error = answer.batches[0].error
        assert error is not None
        assert [note.record for note in error.records] == [1]
        assert await fetched(client, topic) == []


async def test_what_the_broker_does_not_know_is_refused_over_the_wire(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G16: a transactional batch, a tombstone without a key, one with a value."""
    async with connected(disk) as client:
        await client.greet()
        topic = await made(client)
        transactional = batch(topic, b"a")._replace(attributes=int(Attribute.TRANSACTIONAL))
        keyless = batch(topic, b"a")._replace(body=encode_record(0, 1, b"", flags=Flag.TOMBSTONE))
        valued = batch(topic, b"a")._replace(body=encode_record(0, 1, b"a", key=b"k", flags=Flag.TOMBSTONE))
        answer = await client.ask(wire.Produce(2, (transactional, keyless, valued)))
        assert isinstance(answer, wire.Produced)
        codes = [each.error and (each.error.code, len(each.error.records)) for each in answer.batches]
        assert codes == [("invalid_message", 0), ("batch_refused", 1), ("batch_refused", 1)]
        assert await fetched(client, topic) == []


async def test_a_long_poll_delays_nobody(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with connected(disk) as client:
        await client.greet()
        topic = await made(client)
        waiting = client.session.request(wire.Fetch(30_000, 1_000, (wire.FetchPartition(topic.uuid, 0, 0, 0),)))
        begin = trio.current_time()
        await client.ask(wire.Produce(2, (batch(topic, b"a"),)))
        event = await client.next_event()
        assert isinstance(event, AnswerReceived)
        assert event.correlation == waiting
        assert trio.current_time() - begin < 1


async def test_a_fetch_from_many_partitions_is_answered_by_the_first_that_has_something(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with connected(disk) as client:
        await client.greet()
        topic = await made(client, partitions=3)
        wanted = tuple(wire.FetchPartition(topic.uuid, number, 0, 0) for number in range(3))
        client.session.request(wire.Fetch(30_000, 1_000, wanted))
        await client.flush()
        await client.ask(wire.Produce(2, (batch(topic, b"a", partition=1),)))
        event = await client.next_event()
        assert isinstance(event, AnswerReceived)
        assert isinstance(event.answer, wire.Fetched)
        assert [len(records_in(each.data)) for each in event.answer.partitions] == [0, 1, 0]


MIB = 1024 * 1024


async def ask_for_much(client: BareClient, topic: wire.TopicDescription, fetches: int) -> None:
    for _ in range(fetches):
        client.session.request(wire.Fetch(0, 33 * MIB, (wire.FetchPartition(topic.uuid, 0, 0, 0),)))
    await client.flush()


async def test_one_who_asks_for_much_and_takes_nothing_costs_a_bounded_number_of_bytes(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G14. Two hundred answers of several MiB each would be a gigabyte."""
    async with connected(disk) as client, trio.open_nursery() as nursery:
        await client.greet()
        topic = await made(client)
        for number in range(4):
            await client.ask(wire.Produce(2, (batch(topic, bytes(2 * MIB), sequence=number),)))
        nursery.start_soon(ask_for_much, client, topic, 200)
        await wait_all_tasks_blocked()
        one_answer = 3 * MIB
        assert client.connection.bytes_waiting > BYTES_WAITING_MAX, "it was kept busy"
        assert client.connection.bytes_waiting < BYTES_WAITING_MAX + (Bounds().reads_max + 1) * one_answer
        for _ in range(200):
            event = await client.next_event()
            assert isinstance(event, AnswerReceived), "and all is answered once it takes"


async def test_one_who_says_no_hello_is_sent_away(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with connected(disk) as client:
        await trio.sleep(11)
        assert await client.transport.receive() is None


async def test_nonsense_ends_the_connection_with_a_reason(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G14"""
    async with connected(disk) as client:
        await client.transport.send(b"\xc1 nonsense")
        event = await client.next_event()
        assert isinstance(event, SessionClosed)
        assert event.error.code == "protocol_error"


async def test_a_deleted_topic_is_unknown_to_those_who_still_hold_its_uuid(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with connected(disk) as client:
        await client.greet()
        topic = await made(client)
        await client.ask(wire.Produce(2, (batch(topic, b"a"),)))
        await client.ask(wire.DeleteTopic("orders"))
        await made(client)
        answer = await client.ask(wire.Produce(2, (batch(topic, b"late"),)))
        assert isinstance(answer, wire.Produced)
        error = answer.batches[0].error
        assert error is not None
        assert error.code == UnknownTopic.code


async def test_a_purged_topic_is_empty_and_its_offsets_go_on(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with connected(disk) as client:
        await client.greet()
        topic = await made(client)
        await client.ask(wire.Produce(2, (batch(topic, b"a", b"b"),)))
        await client.ask(wire.Purge("orders"))
        answer = await client.ask(wire.DescribeTopics(("orders",)))
        assert isinstance(answer, wire.Topics)
        assert answer.topics[0].partitions[0][2:4] == (2, 2)


async def test_fetches_ask_a_bounded_number_of_partitions_at_once(autojump_clock: MockClock) -> None:
    """Each that waits takes a task: 256 fetches of 16,384 partitions would be four millions of them."""
    async with connected(SimulatedDisk(Random(0))) as client:
        await client.greet()
        topic = await made(client)
        asked = (wire.FetchPartition(topic.uuid, 0, 0, 0),) * (Bounds().questions_max // 2)
        for _ in range(2):
            client.session.request(wire.Fetch(30_000, 1_000, asked))
        refused = client.session.request(wire.Fetch(30_000, 1_000, asked[:1]))
        await client.flush()
        event = await client.next_event()
        assert isinstance(event, RequestFailed)
        assert (event.correlation, event.error.code) == (refused, "too_many_requests")
        assert isinstance(await client.next_event(), AnswerReceived)
        assert isinstance(await client.next_event(), AnswerReceived)
        assert isinstance(await client.ask(wire.Fetch(10, 1_000, asked[:1])), wire.Fetched)


async def test_a_connection_that_is_lost_gives_back_the_room_of_its_unfinished_messages(
    autojump_clock: MockClock,
) -> None:
    async with connected(SimulatedDisk(Random(0))) as client:
        await client.greet()
        await client.transport.send(encode(wire.Part(2_000_000, 0, bytes(1_000)), 1))
        await wait_all_tasks_blocked()
        room = client.connection._common.room
        assert room.left == UNFINISHED_BYTES_MAX - 1_000
        client.transport.cut()
        await wait_all_tasks_blocked()
        assert room.left == UNFINISHED_BYTES_MAX


async def test_messages_are_received_and_acked_by_a_member_of_a_group(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: through the whole broker, and what is acked does not come again."""
    async with connected(disk) as client:
        await client.greet()
        topic = await made(client)
        membership = await client.ask(bodies.join("billing", "m", "test", ("orders",), {}))
        assert isinstance(membership, group.Membership)
        await client.ask(wire.Produce(2, (batch(topic, b"a", b"b", b"c"),)))
        where = tuple(group.ReceivePartition(each.uuid, each.partition) for each in membership.assignment)
        asked = bodies.receive("billing", "m", membership.generation, 1_000, 2, 10**6, 30_000, False, where)
        received = await client.ask(asked)
        assert isinstance(received, group.Received)
        [delivery] = received.partitions
        assert delivery.runs == (group.DeliveryRun(0, 1, 1),)
        ack = bodies.settle(topic.uuid, 0, delivery.nonce, int(Action.ACK), delivery.runs)
        assert await client.ask(group.Settle("billing", (ack,))) == group.Settled((group.SettledDelivery(None),))
        rest = await client.ask(asked)
        assert isinstance(rest, group.Received)
        assert rest.partitions[0].runs == (group.DeliveryRun(2, 2, 1),)
        assert await client.ask(bodies.leave("billing", "m")) == wire.Done()
