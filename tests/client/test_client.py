"""The client, against a whole broker over memory: each call, each error, each loss of the connection."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.link import connection as connected
from goqueue.client.link.address import address_of
from goqueue.client.link.link import Link
from goqueue.client.link.share import OnAnswer
from goqueue.errors import UnknownPartition
from goqueue.net.wire.messages import Produce

BAD_ADDRESSES: list[Any] = [
    "http://127.0.0.1:7710",
    "127.0.0.1",
    "ws://",
    "",
    "ws://host:99999",
    "ws://host:0",
    "ws://[::1",
    5,
    b"ws://host",
]


class Machine(goqueue.testing.Machine):
    """On which a broker runs now and then."""

    broker = goqueue.testing.Machine.running

    @asynccontextmanager
    async def both(self) -> AsyncIterator[goqueue.Client]:
        async with self.broker(), self.client() as client:
            yield client


@pytest.fixture
def machine() -> Machine:
    return Machine()


async def values(client: goqueue.Client, topic: str = "orders", **where: Any) -> list[bytes]:
    """Everything that is there, in order of partition and offset."""
    messages = [message async for message in client.read(topic, end="latest", **where)]
    return [message.value for message in sorted(messages, key=lambda each: (each.partition, each.offset))]


# Calls


async def test_topics_are_made_listed_changed_and_deleted(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        orders = await client.create_topic("orders")
        small = await client.create_topic("small", partitions=1, config={"retention_hours": 5})
        assert [partition.number for partition in orders.partitions] == [0, 1, 2]
        assert (small.name, small.config["retention_hours"]) == ("small", 5)
        assert await client.topics() == [orders, small]
        assert await client.topic("small") == small
        altered = await client.alter_topic("small", {"retention_hours": 6})
        assert (altered.uuid, altered.config["retention_hours"]) == (small.uuid, 6)
        assert len((await client.add_partitions("small", 4)).partitions) == 4
        counted = await client.stats()
        assert (counted["topics"], counted["partitions"]) == (2, 7)
        await client.delete_topic("small")
        assert await client.topics() == [orders]


async def test_a_topic_is_made_and_altered_by_what_can_be_sent(machine: Machine, autojump_clock: MockClock) -> None:
    """G14: the error speaks of the argument."""
    async with machine.both() as client:
        wrong: Any = "x"
        with pytest.raises(goqueue.InvalidConfig, match="config="):
            await client.create_topic("orders", config=wrong)
        for partitions in (wrong, -1):
            with pytest.raises(goqueue.InvalidConfig, match="partitions="):
                await client.create_topic("orders", partitions=partitions)
        await client.create_topic("orders")
        with pytest.raises(goqueue.InvalidConfig, match="config="):
            await client.alter_topic("orders", wrong)
        with pytest.raises(goqueue.InvalidConfig, match="partitions="):
            await client.add_partitions("orders", wrong)


async def test_a_publish_says_where_the_message_lies(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders")
        assert await client.publish("orders", b"a", partition=1) == goqueue.Published("orders", 1, 0)
        assert await client.publish("orders", b"b", partition=1) == ("orders", 1, 1)
        assert await client.publish("orders", b"c", partition=1, acks=goqueue.Acks.NONE) == ("orders", 1, None)
        topic = await client.topic("orders")
        assert [(each.start, each.end) for each in topic.partitions] == [(0, 0), (0, 3), (0, 0)]


async def test_a_message_is_read_back_as_it_was_published(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders")
        where = await client.publish("orders", b"v", key=b"k", headers={"a": b"1"}, priority="high")
        [message] = [message async for message in client.read("orders", end="latest")]
        assert (message.topic, message.partition, message.offset) == where
        assert (message.value, message.key, message.headers) == (b"v", b"k", {"a": b"1"})
        assert message.priority is goqueue.Priority.HIGH


async def test_the_same_key_goes_to_the_same_partition(machine: Machine, autojump_clock: MockClock) -> None:
    """G4, O2: and without a key they take turns."""
    async with machine.both() as client:
        await client.create_topic("orders")
        for key in (b"a", b"b", b"c", b"d"):
            assert len({(await client.publish("orders", b"", key=key)).partition for _ in range(3)}) == 1
        turns = [(await client.publish("orders", b"")).partition for _ in range(4)]
        assert turns == [(turns[0] + number) % 3 for number in range(4)], "the first one is drawn"


async def test_purged_and_deleted_messages_are_gone_and_offsets_go_on(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        for value in (b"a", b"b", b"c"):
            await client.publish("orders", value)
        await client.delete_before("orders", 0, 1)
        assert await values(client) == [b"b", b"c"]
        await client.purge("orders")
        assert await values(client) == []
        assert (await client.publish("orders", b"d")).offset == 3


async def test_partitions_that_were_added_are_published_to(machine: Machine, autojump_clock: MockClock) -> None:
    """Also by a client that published before, and by one that did not add them."""
    async with machine.both() as client, machine.client() as other:
        await client.create_topic("orders", partitions=1)
        for each in (client, other):
            await each.publish("orders", b"before")
        await client.add_partitions("orders", 2)
        assert {(await client.publish("orders", b"anywhere")).partition for _ in range(2)} == {0, 1}
        for each in (client, other):
            assert (await each.publish("orders", b"after", partition=1)).partition == 1


async def test_a_topic_that_was_made_anew_is_found(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client, machine.client() as other:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"before")
        await other.delete_topic("orders")
        await other.create_topic("orders", partitions=2)
        assert (await client.publish("orders", b"after", partition=1)).offset == 0
        assert await values(client) == [b"after"]


# Errors


async def consume(client: goqueue.Client, topics: Any) -> None:
    async with client.consumer(topics, group="billing"):
        raise AssertionError("it came in")


Call = Callable[[goqueue.Client], Awaitable[object]]
REFUSED: list[tuple[str, Call, type[Exception]]] = [
    ("unknown topic", lambda client: client.publish("missing", b""), goqueue.UnknownTopic),
    ("unknown topic read", lambda client: anext(client.read("missing")), goqueue.UnknownTopic),
    ("unknown topic deleted", lambda client: client.delete_topic("missing"), goqueue.UnknownTopic),
    ("topic exists", lambda client: client.create_topic("orders"), goqueue.TopicExists),
    ("name", lambda client: client.create_topic("a/b"), goqueue.InvalidName),
    ("long name", lambda client: client.create_topic("x" * 200), goqueue.InvalidName),
    ("internal name", lambda client: client.publish("__metadata", b""), goqueue.InvalidName),
    ("config", lambda client: client.create_topic("other", config={"nonsense": 1}), goqueue.InvalidConfig),
    ("odd config", lambda client: client.create_topic("other", config={"a": object()}), goqueue.GoQueueError),
    ("no partitions", lambda client: client.create_topic("other", partitions=0), goqueue.InvalidConfig),
    ("huge number", lambda client: client.create_topic("other", partitions=2**70), goqueue.GoQueueError),
    ("partition", lambda client: client.publish("orders", b"", partition=3), UnknownPartition),
    ("text for a value", lambda client: client.publish("orders", "x"), goqueue.InvalidMessage),  # type: ignore[arg-type]
    ("text for a key", lambda client: client.publish("orders", b"", key="x"), goqueue.InvalidMessage),  # type: ignore[arg-type]
    ("priority", lambda client: client.publish("orders", b"", priority="urgent"), goqueue.InvalidMessage),
    ("acks", lambda client: client.publish("orders", b"", acks="some"), goqueue.InvalidMessage),
    ("large value", lambda client: client.publish("orders", bytes(16 * 1024 * 1024 + 1)), goqueue.TooLarge),
    ("large key", lambda client: client.publish("orders", b"", key=bytes(65_536)), goqueue.TooLarge),
    ("large headers", lambda c: c.publish("orders", b"", headers={"a": bytes(65_536)}), goqueue.TooLarge),
    ("packed headers", lambda c: c.publish("orders", b"", headers={"a": bytes(65_535)}), goqueue.TooLarge),
    (
        "header of the broker",
        lambda client: client.publish("orders", b"", headers={"goqueue-x": b""}),
        goqueue.InvalidMessage,
    ),
    ("topics of a consumer", lambda client: consume(client, None), goqueue.InvalidName),
    ("no settings of a group", lambda client: client.alter_group("g", None), goqueue.InvalidConfig),  # type: ignore[arg-type]
    ("settings in a list", lambda client: client.alter_group("g", [1]), goqueue.InvalidConfig),  # type: ignore[arg-type]
    ("bool for a start", lambda client: client.reset_group("g", True), goqueue.InvalidConfig),
    ("text for a rate", lambda c: c.redrive("orders", per_second="1"), goqueue.InvalidConfig),  # type: ignore[arg-type]
    ("offset to delete", lambda client: client.delete_before("orders", 0, 9), goqueue.OffsetOutOfRange),
]


@pytest.mark.parametrize(("call", "error"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_bad_input_gets_its_own_error_and_changes_nothing(
    machine: Machine, autojump_clock: MockClock, call: Call, error: type[Exception]
) -> None:
    """G14: and the connection lives."""
    async with machine.both() as client:
        topic = await client.create_topic("orders")
        begin = trio.current_time()
        with pytest.raises(error) as raised:
            await call(client)
        assert isinstance(raised.value, goqueue.GoQueueError)
        assert trio.current_time() - begin < 1, "it is no use to try again"
        assert await client.topics() == [topic]
        assert (await client.publish("orders", b"good", partition=0)).offset == 0
        assert len(machine.network.connections) == 1


async def test_errors_leave_the_client_as_themselves(machine: Machine, autojump_clock: MockClock) -> None:
    async def fail(error: BaseException | None) -> None:
        async with machine.client() as client:
            await client.topics()
            if error is not None:
                raise error
            await client.publish("missing", b"")

    async with machine.broker():
        with pytest.raises(goqueue.UnknownTopic):
            await fail(None)
        for error in (ValueError("of the body"), KeyboardInterrupt()):
            with pytest.raises(type(error)) as raised:
                await fail(error)
            assert raised.value is error


async def test_an_address_that_is_none_is_refused_at_once() -> None:
    for url in BAD_ADDRESSES:
        with pytest.raises(goqueue.InvalidConfig, match=r"url=.* is not an address like ws://") as refused:
            goqueue.connect(url)
        assert (refused.value.code, refused.value.details["faults"]) == ("invalid_config", [refused.value.message])


async def test_an_address_may_lack_its_port_and_have_brackets() -> None:
    found = [address_of(url) for url in ("ws://broker", "ws://broker:1", "ws://[::1]:65535", "WS://Broker:7/")]
    assert found == [("broker", 7710), ("broker", 1), ("::1", 65535), ("broker", 7)]


async def test_a_closed_client_says_so(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.broker():
        async with machine.client() as client:
            await client.create_topic("orders")
            await client.publish("orders", b"a")
            reader = client.read("orders")
            assert (await anext(reader)).value == b"a"
        for call in (client.topics, lambda: client.publish("orders", b""), lambda: anext(reader)):
            with pytest.raises(goqueue.Closed):
                await call()
        with pytest.raises(goqueue.Closed):
            client.read("orders")


async def test_those_who_wait_when_the_client_closes_hear_that_it_is_closed(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """With a broker that answers, and with none to be found."""
    heard: list[type[BaseException]] = []

    async def wait_for(call: Callable[[], Awaitable[object]]) -> None:
        try:
            await call()
        except goqueue.GoQueueError as error:
            heard.append(type(error))

    async with trio.open_nursery() as nursery:
        async with machine.client() as lost:
            nursery.start_soon(wait_for, lost.topics)
            await trio.testing.wait_all_tasks_blocked()
        async with machine.broker(), machine.client() as client:
            await client.create_topic("orders")
            nursery.start_soon(wait_for, lambda: anext(client.read("orders")))
            await trio.sleep(1)
    assert heard == [goqueue.Closed, goqueue.Closed]


# Connections


async def test_a_broker_that_starts_later_is_found(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.client() as client, trio.open_nursery() as nursery:
        created = trio.Event()

        async def create() -> None:
            await client.create_topic("orders")
            created.set()

        nursery.start_soon(create)
        await trio.sleep(20)
        async with machine.broker():
            with trio.fail_after(connected.RECONNECT_SECONDS_MAX + 1):
                await created.wait()
            assert [topic.name for topic in await client.topics()] == ["orders"]


async def test_without_a_broker_a_call_ends_after_30_seconds(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.client() as client:
        begin = trio.current_time()
        with pytest.raises(goqueue.Unavailable, match="is the broker running"):
            await client.topics()
        assert trio.current_time() - begin == pytest.approx(connected.CALL_SECONDS_MAX, abs=3)


async def test_without_a_broker_a_publish_ends_after_two_minutes(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.client() as client:
        async with machine.broker():
            await client.create_topic("orders")
            await client.publish("orders", b"")
        begin = trio.current_time()
        with pytest.raises(goqueue.DeliveryTimeout):
            await client.publish("orders", b"")
        assert trio.current_time() - begin == pytest.approx(30)


async def test_a_broker_that_restarts_is_found_again(machine: Machine, autojump_clock: MockClock) -> None:
    """G1, G11, O1: nothing is lost or doubled on the way, order is kept, the row of sequences goes on."""
    async with machine.client() as client:
        for restart in range(3):
            async with machine.broker():
                if not restart:
                    await client.create_topic("orders", partitions=1)
                for number in range(3):
                    where = await client.publish("orders", b"%d %d" % (restart, number))
                    assert where.offset == restart * 3 + number
        async with machine.broker():
            assert await values(client) == [b"%d %d" % (each // 3, each % 3) for each in range(9)]


async def test_more_callers_than_places_survive_a_cut_and_a_restart(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """Those who waited for a place when the connection was lost ask on the next one."""
    read: list[bytes] = []
    everybody = trio.Event()

    async def read_one() -> None:
        read.append((await anext(client.read("orders"))).value)
        if len(read) == 200:
            everybody.set()

    async with machine.client() as client:
        async with machine.broker():
            await client.create_topic("orders", partitions=1)
        async with trio.open_nursery() as nursery:
            async with machine.broker():
                for _ in range(200):
                    nursery.start_soon(read_one)
                await trio.sleep(2)
                await trio.aclose_forcefully(machine.network.connections[-1])
                await trio.sleep(2)
            async with machine.broker():
                await client.publish("orders", b"wake up")
                await everybody.wait()
    assert read == [b"wake up"] * 200


async def test_many_readers_at_the_end_delay_no_other_call(machine: Machine, autojump_clock: MockClock) -> None:
    """Each waits ten seconds for its answer; there are places left for those who ask for something else."""
    async with machine.both() as client, trio.open_nursery() as nursery:
        await client.create_topic("silent", partitions=1)
        await client.create_topic("orders", partitions=1)
        for _ in range(150):
            nursery.start_soon(anext, client.read("silent"))
        await trio.sleep(1)
        begin = trio.current_time()
        assert (await client.publish("orders", b"")).offset == 0
        assert trio.current_time() - begin < 0.5
        nursery.cancel_scope.cancel()


async def test_a_line_that_is_cut_again_and_again_doubles_nothing(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G11"""
    random = Random(1)
    async with machine.both() as client, trio.open_nursery() as nursery:
        await client.create_topic("orders", partitions=2)

        async def cut() -> None:
            while True:
                await trio.sleep(random.uniform(0, 0.3))
                await trio.aclose_forcefully(machine.network.connections[-1])

        async def publish(name: int) -> None:
            for number in range(30):
                await client.publish("orders", b"%d %d" % (name, number), partition=name % 2)
                await trio.sleep(random.uniform(0, 0.2))

        nursery.start_soon(cut)
        async with trio.open_nursery() as publishers:
            for name in range(4):
                publishers.start_soon(publish, name)
        found = await values(client)
        nursery.cancel_scope.cancel()
    assert len(machine.network.connections) > 10
    for name in range(4):
        mine = [value for value in found if value.startswith(b"%d " % name)]
        assert mine == [b"%d %d" % (name, number) for number in range(30)]


async def test_a_publish_that_was_given_up_does_not_swallow_the_next_one(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G1, G11: it may be written; the next message must not be taken for a repeat of it."""
    post_batch, held = Link.post_batch, list[Callable[[], None]]()

    def post_and_hold_the_answer(self: Link, request: Produce, on_answer: OnAnswer) -> None:
        post_batch(self, request, lambda answer: held.append(lambda: on_answer(answer)))

    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        monkeypatch.setattr(Link, "post_batch", post_and_hold_the_answer)
        with trio.move_on_after(1) as patience:
            await client.publish("orders", b"given up")
        assert patience.cancelled_caught
        monkeypatch.undo()
        assert (await client.publish("orders", b"wanted")).offset == 1
        [answer] = held
        answer()
        assert await values(client) == [b"given up", b"wanted"]


async def test_a_publish_that_is_refused_does_not_hold_up_the_next_one(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        for number in range(3):
            with pytest.raises(goqueue.InvalidMessage):
                await client.publish("orders", b"", headers={"goqueue-x": b""})
            assert (await client.publish("orders", b"")).offset == number


async def test_two_clients_see_the_same(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as first, machine.client() as second:
        await first.create_topic("orders", partitions=1)
        async with trio.open_nursery() as nursery:
            for client in (first, second):
                for value in (b"a", b"b"):
                    nursery.start_soon(client.publish, "orders", value)
        assert sorted(await values(first)) == [b"a", b"a", b"b", b"b"]
        assert await values(first) == await values(second)


# Cancelled on the way in


async def test_a_connection_that_is_cancelled_while_it_is_entered_ends(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """Its tasks are shielded from that: they must not be waited for, for ever."""
    with trio.fail_after(60), trio.CancelScope() as scope:
        scope.cancel()
        async with machine.client():
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_sibling_that_fails_at_once_ends_a_connection_that_is_being_entered(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async def connect() -> None:
        async with machine.client():
            await trio.sleep_forever()

    async def fail() -> None:
        raise KeyError

    with trio.fail_after(60), pytest.RaisesGroup(KeyError):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect)
            nursery.start_soon(fail)
