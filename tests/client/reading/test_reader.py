"""Reading without a group: where it begins, where it ends, what it survives."""

from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Any
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.link.topics import Partition, Topic
from goqueue.client.reading.reader import WAIT_MS, Reader
from goqueue.core.records.record import Flag, encode_record
from goqueue.errors import DamagedData, UnknownPartition
from goqueue.net.wire import messages as wire
from goqueue.net.wire.failures import error_body
from goqueue.net.wire.kinds import Request
from goqueue.testing.disk import SimulatedDisk
from tests.client.callers import BareCaller
from tests.client.reading.test_message import sealed
from tests.client.test_client import Machine, machine
from tests.process.brokers import broker_on_loopback

__all__ = ["machine"]


async def fill(client: goqueue.Client, count: int = 5, partitions: int = 1) -> None:
    """0, 1, 2 …, one partition after the other."""
    await client.create_topic("orders", partitions=partitions)
    for number in range(count):
        await client.publish("orders", b"%d" % number)


async def values(reader: Reader) -> list[bytes]:
    return [message.value async for message in reader]


async def test_a_reader_begins_and_ends_where_it_is_told(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client)
        everything = [b"0", b"1", b"2", b"3", b"4"]
        assert await values(client.read("orders", end="latest")) == everything
        assert await values(client.read("orders", start="earliest", end=5)) == everything
        assert await values(client.read("orders", start=2, end="latest")) == everything[2:]
        assert await values(client.read("orders", start=1, end=3)) == everything[1:3]
        assert await values(client.read("orders", start=4, end=5)) == everything[4:]


async def test_an_end_that_is_not_behind_the_start_ends_at_once(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client)
        begin = trio.current_time()
        for where in ({"start": 3, "end": 3}, {"start": 3, "end": 1}, {"start": 99, "end": 7}, {"end": 0}):
            assert await values(client.read("orders", **where)) == []
        assert await values(client.read("orders", start="latest", end="latest")) == []
        assert trio.current_time() - begin < 1


async def test_an_end_beyond_what_is_there_is_waited_for(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client, trio.open_nursery() as nursery:
        await fill(client)
        found: list[bytes] = []

        async def read() -> None:
            found.extend(await values(client.read("orders", start=4, end=6)))

        nursery.start_soon(read)
        await trio.sleep(60)
        assert found == []
        await client.publish("orders", b"5")
        await client.publish("orders", b"6")
    assert found == [b"4", b"5"]


async def test_a_reader_begins_at_a_time(machine: Machine, autojump_clock: MockClock) -> None:
    """Seconds, a datetime with a zone or without (UTC), or ISO text."""
    async with machine.both() as client:
        await fill(client)
        times = [message.timestamp async for message in client.read("orders", end="latest")]
        third = datetime.fromtimestamp(times[2], UTC)
        east = third.astimezone(timezone(timedelta(hours=5)))
        for start in (times[2], third, east, third.replace(tzinfo=None), third.isoformat(), east.isoformat()):
            assert await values(client.read("orders", start=start, end="latest")) == [b"2", b"3", b"4"]
        assert len(await values(client.read("orders", start=0.0, end="latest"))) == 5
        assert await values(client.read("orders", start=times[4] + 3600, end="latest")) == []


async def test_a_reader_begins_so_many_offsets_before_the_end(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client)
        assert await values(client.read("orders", start="last:2", end="latest")) == [b"3", b"4"]
        assert len(await values(client.read("orders", start="last:99", end="latest"))) == 5
        assert await values(client.read("orders", start="last:0", end="latest")) == []


async def test_a_reader_ends_at_a_time(machine: Machine, autojump_clock: MockClock) -> None:
    """Seconds, a datetime or ISO text; the message of that very time is not read."""
    async with machine.both() as client:
        await fill(client)
        times = [message.timestamp async for message in client.read("orders", end="latest")]
        third = datetime.fromtimestamp(times[2], UTC)
        for end in (times[2], third, third.replace(tzinfo=None), third.isoformat()):
            assert await values(client.read("orders", end=end)) == [b"0", b"1"]
            assert await values(client.read("orders", start=1, end=end)) == [b"1"]
        assert await values(client.read("orders", start=times[1], end=times[3])) == [b"1", b"2"]
        assert await values(client.read("orders", end=0.0)) == []
        assert await values(client.read("orders", end=2)) == [b"0", b"1"], "a whole number is an offset"


async def test_an_end_in_the_future_is_the_end_that_there_is_now(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client)
        reader, found = client.read("orders", end=9e9), list[bytes]()
        async for message in reader:
            found.append(message.value)
            if len(found) == 1:
                await client.publish("orders", b"later")
        assert found == [b"0", b"1", b"2", b"3", b"4"]


async def test_an_end_by_time_is_reached_over_hidden_records(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, count=2)
        for _ in range(5):
            await client.publish("orders", b"hidden", delay=9_000)
        await trio.sleep(10)
        await client.publish("orders", b"last")
        [*_, last] = [message.timestamp async for message in client.read("orders", end="latest")]
        with trio.fail_after(5):
            assert await values(client.read("orders", end=last)) == [b"0", b"1"]


async def test_what_is_no_end_is_refused(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, count=1)
        for end in ("earliest", "soon", True, float("nan"), [1], "last:3"):
            with pytest.raises(goqueue.InvalidMessage, match="neither an offset, 'latest' nor a time"):
                await values(client.read("orders", end=end))  # type: ignore[arg-type]


async def test_from_the_latest_on_only_what_comes_later_is_read(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client, trio.open_nursery() as nursery:
        await fill(client, partitions=3)
        found: list[bytes] = []

        async def follow() -> None:
            async for message in client.read("orders", start="latest"):
                found.append(message.value)
                if len(found) == 4:
                    return

        nursery.start_soon(follow)
        await trio.sleep(3 * WAIT_MS / 1_000)
        for number in range(4):
            await client.publish("orders", b"later %d" % number, partition=number % 3)
            await trio.sleep(1)
    assert found == [b"later %d" % number for number in range(4)]


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_reader_that_follows_sees_a_message_as_soon_as_it_is_there(
    machine: Machine, autojump_clock: MockClock, partitions: int
) -> None:
    async with machine.both() as client, machine.client() as other:
        await fill(client, 1, partitions)
        reader = client.read("orders")
        assert (await anext(reader)).value == b"0"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.publish, "orders", b"1")
            begin = trio.current_time()
            assert (await anext(reader)).value == b"1"
            assert trio.current_time() - begin < 0.5


async def test_one_partition_is_read_or_all(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 9, partitions=3)
        first, *others = await values(client.read("orders", partition=1, end="latest"))
        assert others == [b"%d" % (int(first) + 3), b"%d" % (int(first) + 6)]
        messages = [message async for message in client.read("orders", end="latest")]
        assert sorted(message.value for message in messages) == [b"%d" % number for number in range(9)]
        for number in range(3):
            assert [each.offset for each in messages if each.partition == number] == [0, 1, 2]


async def test_much_is_read_in_many_slices_and_each_message_once(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """O12: more than one answer holds, from partitions of different sizes."""
    random = Random(5)
    async with machine.both() as client:
        await client.create_topic("orders")
        for _ in range(60):
            await client.publish(
                "orders", bytes(random.randrange(100_000)), partition=random.choice([0, 0, 0, 1, 2])
            )
        topic = await client.topic("orders")
        found = [(message.partition, message.offset) async for message in client.read("orders", end="latest")]
        assert sorted(found) == [(each.number, offset) for each in topic.partitions for offset in range(each.end)]
        assert all(
            sorted(found) == found
            for found in ([offset for partition, offset in found if partition == number] for number in range(3))
        )


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ({"start": 99}, goqueue.OffsetOutOfRange),
        ({"start": -1}, goqueue.OffsetOutOfRange),
        ({"start": 2**70}, goqueue.OffsetOutOfRange),
        ({"end": -5}, goqueue.OffsetOutOfRange),
        ({"start": "yesterday"}, goqueue.InvalidMessage),
        ({"start": None}, goqueue.InvalidMessage),
        ({"end": "tomorrow"}, goqueue.InvalidMessage),
        ({"end": "last:1"}, goqueue.InvalidMessage),
        ({"partition": 1}, UnknownPartition),
        ({"partition": -1}, UnknownPartition),
        ({"partition": "0"}, UnknownPartition),
    ],
)
async def test_what_cannot_be_read_gets_its_own_error(
    machine: Machine, autojump_clock: MockClock, where: dict[str, Any], error: type[Exception]
) -> None:
    """G14"""
    async with machine.both() as client:
        await fill(client)
        with pytest.raises(error):
            await anext(client.read("orders", **where))
        assert len(await values(client.read("orders", end="latest"))) == 5


async def test_what_was_deleted_is_out_of_range_and_the_error_says_what_is_left(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client)
        await client.delete_before("orders", 0, 3)
        assert await values(client.read("orders", end="latest")) == [b"3", b"4"]
        with pytest.raises(goqueue.OffsetOutOfRange) as raised:
            await anext(client.read("orders", start=2))
        assert raised.value.details == {"start": 3, "end": 5}


async def test_what_was_confirmed_but_is_not_yet_durable_is_waited_for(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """acks=leader answers before the disk does; where the message lies can be read from at once all the same."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        for number in range(3):
            await client.publish("orders", b"%d" % number, acks=goqueue.Acks.LEADER)
        begin = trio.current_time()
        assert (await anext(client.read("orders", start=2))).value == b"2"
        assert trio.current_time() - begin < 0.5
        await client.publish("orders", b"3", acks=goqueue.Acks.LEADER)
        reader = client.read("orders", start="latest")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.publish, "orders", b"4")
            assert (await anext(reader)).value in (b"3", b"4")


async def test_a_loop_that_is_left_leaves_nothing_running(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client)
        await trio.testing.wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        async for message in client.read("orders"):
            if message.offset == 3:
                break
        async with client.read("orders") as reader:
            async for message in reader:
                assert message.value == b"0"
                break
        assert trio.lowlevel.current_statistics().tasks_living == before
        with pytest.raises(goqueue.Closed, match="reader is closed"):
            await anext(reader)


async def test_a_reader_that_is_cancelled_loses_nothing_and_repeats_nothing(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """However often, and wherever it is just then."""
    random = Random(3)
    async with machine.both() as client, trio.open_nursery() as nursery:
        await client.create_topic("orders")
        reader, found = client.read("orders"), list[tuple[int, bytes]]()

        async def publish() -> None:
            for number in range(60):
                await client.publish("orders", b"%d" % number, partition=random.randrange(3))
                await trio.sleep(random.choice([0, 0.01, 0.1]))

        nursery.start_soon(publish)
        while len(found) < 60:
            with trio.move_on_after(random.choice([0, 0.001, 0.05])):
                async for message in reader:
                    found.append((message.partition, message.value))
    assert sorted(int(value) for _, value in found) == list(range(60))
    for partition in range(3):
        mine = [int(value) for each, value in found if each == partition]
        assert mine == sorted(mine)


async def test_a_reader_that_looks_in_again_and_again_leaves_no_heap_of_polls(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """Each would wait ten seconds at the broker, and in the end nothing else could be asked."""
    async with machine.both() as client:
        await fill(client, 1)
        reader = client.read("orders")
        assert (await anext(reader)).value == b"0"
        for _ in range(400):
            with trio.move_on_after(0.01):
                await anext(reader)
        begin = trio.current_time()
        await client.publish("orders", b"1")
        assert (await anext(reader)).value == b"1"
        await client.publish("orders", b"2")
        assert (await anext(reader)).value == b"2"
        assert trio.current_time() - begin < 0.5


async def test_a_reader_goes_on_where_it_was_when_the_broker_restarts(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.client() as client:
        async with machine.broker():
            await fill(client)
            reader = client.read("orders")
            found = [(await anext(reader)).value for _ in range(3)]
        for number in (5, 6):
            async with machine.broker():
                await client.publish("orders", b"%d" % number)
                found += [(await anext(reader)).value for _ in range(len(found), number + 1)]
    assert found == [b"%d" % number for number in range(7)]


async def test_a_broker_does_not_wait_for_readers_when_it_stops(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G15: those at the end would wait ten seconds more."""
    async with machine.client() as client, machine.client() as gone, trio.open_nursery() as nursery:
        async with machine.broker():
            await fill(client, partitions=3)
            for each in (client, gone):
                nursery.start_soon(anext, each.read("orders", partition=0, start="latest"))
                nursery.start_soon(anext, each.read("orders", start="latest"))
            await trio.sleep(1)
            begin = trio.current_time()
        assert trio.current_time() - begin < 5
        nursery.cancel_scope.cancel()


async def test_over_real_sockets_a_restarted_broker_is_found_again() -> None:
    disk = SimulatedDisk(Random(0))
    with trio.fail_after(20):
        async with broker_on_loopback(disk) as url:
            port = int(url.rpartition(":")[2])
            async with goqueue.connect(url) as client:
                await fill(client, 3)
        async with goqueue.connect(url) as client:
            async with broker_on_loopback(disk, port=port):
                reader = client.read("orders")
                assert [(await anext(reader)).value for _ in range(2)] == [b"0", b"1"]
            async with broker_on_loopback(disk, port=port):
                await client.publish("orders", b"3")
                assert [(await anext(reader)).value for _ in range(2)] == [b"2", b"3"]


# A broker of our own, for what a real one shows rarely


class Scripted(BareCaller):
    """Answers each fetch with the next slice."""

    def __init__(self, *slices: wire.FetchedPartition, end: int = 10) -> None:
        super().__init__()
        self._slices = list(slices)
        self._topic = Topic("orders", UUID(int=1), {}, [Partition(0, 0, end)])
        self.asked: list[int] = []

    async def topic(self, name: str) -> Topic:
        return self._topic

    async def call(self, request: Request, kind: type[Any]) -> Any:
        assert isinstance(request, wire.Fetch)
        self.asked.append(request.partitions[0].offset)
        return wire.Fetched((self._slices.pop(0),))


def slice_of(data: bytes, next_offset: int) -> wire.FetchedPartition:
    return wire.FetchedPartition(None, 0, 10, 10, next_offset, (), data)


async def test_an_end_is_reached_over_hidden_records_too() -> None:
    """G3: control records at the end are no messages, and nothing comes behind them."""
    hidden = encode_record(0, 1, b"", key=b"\0\1", flags=Flag.CONTROL)
    caller = Scripted(
        slice_of(sealed(encode_record(0, 1, b"a")), 1),
        slice_of(sealed(hidden, base_offset=1), 2),
        slice_of(sealed(encode_record(0, 1, b"", due=5), base_offset=2), 3),
        end=3,
    )
    assert await values(Reader(caller, "orders", None, "earliest", "latest")) == [b"a"]
    assert caller.asked == [0, 1, 2]


async def test_a_slice_may_hold_more_than_was_asked_for() -> None:
    """Batches come whole: what lies before the start or from the end on is left out."""
    batch = sealed(*(encode_record(number, 1, b"%d" % number) for number in range(6)))
    caller = Scripted(slice_of(batch, 6))
    assert await values(Reader(caller, "orders", 0, 2, 4)) == [b"2", b"3"]


async def test_damage_stops_a_reader_with_its_place() -> None:
    """G1: before it everything is read; the error says where to go on."""
    damage = DamagedData("00.log", 10, 20, offset=1, end_offset=4)
    refused = wire.FetchedPartition(error_body(damage), 0, 0, 0, 0, (), b"")
    reader = Reader(
        Scripted(slice_of(sealed(encode_record(0, 1, b"a")), 1), refused, refused), "orders", 0, 0, None
    )
    assert (await anext(reader)).value == b"a"
    for _ in range(2):
        with pytest.raises(DamagedData, match="offset 4") as raised:
            await anext(reader)
        assert (raised.value.offset, raised.value.end_offset) == (1, 4)
