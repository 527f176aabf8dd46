"""Delayed messages from end to end, on a virtual clock: when they come, what stops them, what they outlive (G8)."""

import math
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue import InvalidMessage
from goqueue.client.reading.message import Message
from goqueue.core.records.record import TIMESTAMP_MAX
from goqueue.storage.delays.index import NAME
from goqueue.testing.clock import SimulatedClock
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

HOUR = 3_600
TICK = 0.011
"""How late a message may be: the wheel's tick, and the sync."""
INDEX = f"/data/logs/orders/0/{NAME}"


def clock_of(machine: Machine) -> SimulatedClock:
    assert isinstance(machine.clock, SimulatedClock)
    return machine.clock


async def orders(client: goqueue.Client, **config: Any) -> None:
    await client.create_topic("orders", partitions=1, config=config)


async def seen(client: goqueue.Client) -> list[Message]:
    return [message async for message in client.read("orders", end="latest")]


async def values(client: goqueue.Client) -> list[bytes]:
    return [message.value for message in await seen(client)]


async def due_times(client: goqueue.Client) -> list[float | None]:
    return [each.due for each in await client.delayed("orders")]


# When they come


async def test_a_message_comes_when_it_is_due_and_is_all_that_it_was(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client)
        given: dict[str, Any] = {"key": b"k", "headers": {"a": b"1"}, "priority": "high"}
        asked = trio.current_time()
        assert (await client.publish("orders", b"later", delay=10, **given)).offset == 0
        confirmed, published = trio.current_time(), clock_of(machine).now()
        assert (await client.publish("orders", b"now")).offset == 1
        await trio.sleep(9.9)
        assert await values(client) == [b"now"]
        message = await anext(aiter(client.read("orders", start=2)))
        assert asked + 10 <= trio.current_time() <= confirmed + 10 + TICK
        assert (message.value, message.key, message.priority) == (b"later", b"k", goqueue.Priority.HIGH)
        assert message.headers == {"a": b"1", "goqueue-delayed-from": b"0"}
        assert message.timestamp == pytest.approx(published / 1e6, abs=0.1)
        assert await client.delayed("orders") == []
        counted = await client.stats()
        assert (counted["delay.fired"], counted["delay.pending"]) == (1, 0)
        assert 0 <= counted["delay.lateness_max_ms"] <= 1_000 * TICK


@pytest.mark.parametrize("form", ["seconds", "datetime", "text", "text without a zone"])
async def test_a_message_may_be_given_its_moment(machine: Machine, autojump_clock: MockClock, form: str) -> None:
    async with machine.both() as client:
        await orders(client)
        seconds = clock_of(machine).now() / 1e6 + 50
        moment = datetime.fromtimestamp(seconds, UTC)
        forms: dict[str, Any] = {"seconds": seconds, "datetime": moment, "text": moment.isoformat()}
        forms["text without a zone"] = moment.replace(tzinfo=None).isoformat()
        await client.publish("orders", b"later", deliver_at=forms[form])
        [due] = await due_times(client)
        assert due == pytest.approx(seconds, abs=1e-5)
        await trio.sleep(49.9)
        assert await values(client) == []
        await trio.sleep(0.2)
        assert await values(client) == [b"later"]


@pytest.mark.parametrize("when", [{"delay": 0}, {"delay": 0.0}, {"deliver_at": 0}, {"deliver_at": "1999-01-01"}])
async def test_zero_and_past_are_at_once(machine: Machine, autojump_clock: MockClock, when: dict[str, Any]) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"v", **when)
        await trio.sleep(2 * TICK)
        assert await values(client) == [b"v"]


async def test_delays_of_any_length_come_when_they_are_due(machine: Machine, autojump_clock: MockClock) -> None:
    """Below one tick, across each level of the wheel, and beyond its last one, by a clock that is set forward."""
    delays = [0.000_001, 0.004, 0.009, 0.02, 2.5, 4.1, 163, 165, 2_000, 10_485, 10_487, 8 * 86_400, 400 * 86_400]
    async with machine.both() as client:
        await orders(client, retention_hours=24 * 1_000)
        async with client.producer("orders") as producer:
            for number, delay in reversed(list(enumerate(delays))):
                await producer.send(b"%d" % number, delay=delay)
        published = clock_of(machine).now()
        for number, delay in enumerate(delays):
            missing = published / 1e6 + delay - clock_of(machine).now() / 1e6
            if missing > 200:
                clock_of(machine).step(round((missing - 2) * 1e6))
                missing = 2
            if missing > 1:
                await trio.sleep(missing - 0.05)
                assert len(await seen(client)) == number
            await trio.sleep(0.1)
            assert len(await seen(client)) >= number + 1
        assert await values(client) == [b"%d" % number for number in range(len(delays))]


async def test_many_calls_of_a_producer_may_be_delayed(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        async with client.producer("orders") as producer:
            await producer.send_many([b"%d" % number for number in range(300)], delay=5)
            producer.send_nowait(b"x", delay=6)
            await producer.flush()
        assert await client.count_delayed("orders") == 301
        await trio.sleep(5.1)
        assert await values(client) == [b"%d" % number for number in range(300)]
        await trio.sleep(1)
        assert (await values(client))[-1] == b"x"


async def test_a_group_is_handed_it_and_waits_for_no_original(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"later", delay=60)
        await client.publish("orders", b"now")
        async with client.consumer("orders", group="g") as consumer:
            for value in (b"now", b"later"):
                [message] = await consumer.receive(timeout=100)
                assert message.value == value
                await message.ack()
                [place] = (await client.group("g")).partitions
                assert place.lag == 0


async def test_what_waits_for_its_time_is_no_lag_though_nobody_has_looked_at_it(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G3: hidden originals are passed over by lag too."""
    async with machine.both() as client:
        await orders(client)
        async with client.consumer("orders", group="g"):
            pass
        await client.publish("orders", b"now")
        for _ in range(5):
            await client.publish("orders", b"later", delay=60)
        [place] = (await client.group("g")).partitions
        assert (place.lag, place.lanes[goqueue.Priority.NORMAL].ready) == (1, 1)
        await trio.sleep(61)
        assert await figures(client) == (6, 6, "the group has no members: 6 messages wait on 1 partition")


async def figures(client: goqueue.Client) -> tuple[int, int | None, str]:
    """The lag of group g, what its lane has ready, and what is said of it."""
    [place] = (await client.group("g")).partitions
    return place.lag, place.lanes[goqueue.Priority.NORMAL].ready, await client.why("g")


@pytest.mark.parametrize("mode", ["queue", "stream"])
async def test_neither_originals_nor_what_is_said_of_them_are_lag_whatever_became_of_them(
    machine: Machine, autojump_clock: MockClock, mode: Literal["queue", "stream"]
) -> None:
    """G3, also after a restart: five have fired, five were cancelled, and five are moved again and again."""
    async with machine.both() as client:
        await orders(client)
        async with client.consumer("orders", group="g", mode=mode):
            pass
        for _ in range(5):
            await client.publish("orders", b"x", delay=1)
        await trio.sleep(2)
        offsets = [(await client.publish("orders", b"x", delay=1_000)).offset or 0 for _ in range(10)]
        for offset in offsets[:5]:
            await client.cancel_delayed("orders", 0, offset)
        for offset in offsets[5:] * 4:
            await client.reschedule_delayed("orders", 0, offset, delay=2_000)
        expected = (5, 5, "the group has no members: 5 messages wait on 1 partition")
        assert await figures(client) == expected
    async with machine.both() as client:
        assert await figures(client) == expected


@pytest.mark.parametrize(
    "when",
    [
        {"delay": -1},
        {"delay": math.nan},
        {"delay": math.inf},
        {"delay": 1e30},
        {"delay": True},
        {"delay": "1"},
        {"deliver_at": "tomorrow"},
        {"deliver_at": -5},
        {"deliver_at": math.nan},
        {"deliver_at": TIMESTAMP_MAX},
        {"deliver_at": []},
        {"delay": 1, "deliver_at": 5.0},
    ],
    ids=str,
)
async def test_what_is_no_time_is_refused_and_nothing_is_written(
    machine: Machine, autojump_clock: MockClock, when: dict[str, Any]
) -> None:
    """G14"""
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"v", delay=5)
        with pytest.raises(InvalidMessage):
            await client.publish("orders", b"v", **when)
        with pytest.raises(InvalidMessage):
            await client.reschedule_delayed("orders", 0, 0, **when)
        with pytest.raises(InvalidMessage):
            await client.reschedule_delayed("orders", 0, 0)
        assert (await client.topic("orders")).partitions[0].end == 1


# What can be done about them


async def test_what_is_cancelled_never_comes(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"no", delay=5)
        assert await client.cancel_delayed("orders", 0, 0)
        assert await client.cancel_delayed("orders", 0, 0), "it will never be delivered, whoever asks"
        await trio.sleep(10)
        assert await values(client) == []
        [entry] = await client.delayed("orders", state="finished")
        assert (entry.state, entry.delivered_offset) == ("cancelled", None)


async def test_what_was_confirmed_a_moment_ago_can_be_cancelled(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """With acks=leader it is not durable yet, and the wheel has not heard of it."""
    async with machine.both() as client:
        await orders(client)
        for number in range(20):
            await client.publish("orders", b"no", delay=5, acks="leader")
            assert await client.cancel_delayed("orders", 0, 2 * number)  # behind each lies its cancellation
        await trio.sleep(10)
        assert await values(client) == []


async def test_a_cancel_that_comes_too_late_is_told_so_and_the_listing_says_when(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client)
        due = clock_of(machine).now() / 1e6 + 5
        await client.publish("orders", b"v", key=b"k", delay=5)
        await trio.sleep(6)
        assert not await client.cancel_delayed("orders", 0, 0)
        assert not await client.reschedule_delayed("orders", 0, 0, delay=5)
        assert not await client.deliver_delayed("orders", 0, 0)
        [entry] = await client.delayed("orders", state="finished")
        assert (entry.offset, entry.state, entry.delivered_offset, entry.key) == (0, "delivered", 1, b"k")
        assert entry.finished_at == pytest.approx(due, abs=0.1)
        assert await values(client) == [b"v"]


@pytest.mark.parametrize("offset", [0, 1, 2**40])
async def test_what_is_no_delayed_message_is_not_cancelled(
    machine: Machine, autojump_clock: MockClock, offset: int
) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"v")
        assert not await client.cancel_delayed("orders", 0, offset)
        assert await values(client) == [b"v"]


async def test_of_many_who_cancel_and_move_at_once_all_hear_the_truth(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"v", delay=5)
        heard: list[bool] = []

        async def cancel() -> None:
            heard.append(await client.cancel_delayed("orders", 0, 0))

        async def move() -> None:
            await client.reschedule_delayed("orders", 0, 0, delay=1)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(cancel)
                nursery.start_soon(move)
        await trio.sleep(10)
        assert heard == [True] * 5
        assert await values(client) == []


@pytest.mark.parametrize("delay", [1, 100], ids=["sooner", "later"])
async def test_a_message_is_given_another_time(machine: Machine, autojump_clock: MockClock, delay: float) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"v", delay=20)
        assert await client.reschedule_delayed("orders", 0, 0, delay=delay)
        assert await due_times(client) == [pytest.approx(clock_of(machine).now() / 1e6 + delay, abs=0.1)]
        await trio.sleep(delay - 0.1)
        assert await values(client) == []
        await trio.sleep(0.2)
        assert await values(client) == [b"v"]
        assert (await client.stats())["delay.rescheduled"] == 1


async def test_a_message_is_delivered_now(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"v", delay=HOUR)
        assert await client.deliver_delayed("orders", 0, 0)
        await trio.sleep(2 * TICK)
        assert await values(client) == [b"v"]


async def test_pages_follow_each_other_over_partitions(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=3)
        for number in range(25):
            await client.publish("orders", b"%d" % number, partition=number % 3, delay=HOUR)
        found, after = [], None
        while True:
            page = await client.delayed("orders", after=after, limit=4)
            assert len(page) <= 4
            assert page.pending == 25
            found += [(each.partition, each.offset) for each in page]
            after = page.next
            if after is None:
                break
        assert found == sorted(found)
        assert len(set(found)) == 25
        assert len(await client.delayed("orders", partition=1)) == 8
        histogram = {each.within: each.count for each in await client.delayed_by_due("orders")}
        assert histogram == dict.fromkeys(histogram, 0) | {HOUR: 25}
        with pytest.raises(goqueue.UnknownPartition):
            await client.delayed("orders", partition=3)
        with pytest.raises(goqueue.UnknownTopic):
            await client.cancel_delayed("nothing", 0, 0)


# Ends of brokers


@pytest.mark.parametrize("end", ["restart", "kill", "crash"])
async def test_what_is_pending_outlives_the_broker(machine: Machine, autojump_clock: MockClock, end: str) -> None:
    async with machine.both() as client:
        await orders(client)
        for number in range(5):
            await client.publish("orders", b"%d" % number, delay=100 + number)
        assert await client.cancel_delayed("orders", 0, 1)
        assert await client.reschedule_delayed("orders", 0, 2, delay=200)
        before = await due_times(client)
        await getattr(machine, end)()
        if end != "restart":
            await machine.start()
        assert await due_times(client) == before
        await trio.sleep(150)
        assert await values(client) == [b"0", b"3", b"4"]
        await trio.sleep(100)
        assert await values(client) == [b"0", b"3", b"4", b"2"]
        [first, *_] = await client.delayed("orders", state="finished")
        assert first.state == "delivered"
        assert await client.cancel_delayed("orders", 0, 1)


async def test_what_fell_due_meanwhile_comes_at_once_in_due_order(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client)
        for number in (3, 1, 2):
            await client.publish("orders", b"%d" % number, delay=number)
        await machine.stop()
        await trio.sleep(HOUR)
        await machine.start()
        await trio.sleep(4 * TICK)
        assert await values(client) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("harm", ["gone", "flipped", "cut", "empty", "foreign"])
async def test_an_index_that_is_lost_or_damaged_is_made_anew(
    machine: Machine, autojump_clock: MockClock, harm: str
) -> None:
    async with machine.both() as client:
        await orders(client)
        for number in range(9):
            await client.publish("orders", b"%d" % number, delay=100 + number)
        await client.cancel_delayed("orders", 0, 4)
        await client.reschedule_delayed("orders", 0, 5, delay=500)
        before = await due_times(client)
        await machine.stop()
        if harm == "gone":
            machine.disk.remove(INDEX)
        elif harm == "flipped":
            machine.disk.flip_bit(INDEX, 100, 2)
        else:
            file = machine.disk.open(INDEX)
            file.truncate(77 if harm == "cut" else 0)
            file.write(0, [b"something else altogether" * 5] if harm == "foreign" else [])
            file.close()
        await machine.start()
        assert await due_times(client) == before
        await trio.sleep(150)
        assert await values(client) == [b"0", b"1", b"2", b"3", b"6", b"7", b"8"]
        await trio.sleep(500)
        assert (await values(client))[-1] == b"5"


async def test_a_full_disk_delays_and_loses_nothing(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        for number in range(3):
            await client.publish("orders", b"%d" % number, delay=5)
        await trio.sleep(3)  # its recovery point is written, and nothing else is to be synced
        machine.fill_disk()
        await trio.sleep(20)
        machine.free_disk()
        await trio.sleep(2)  # nobody reads or writes meanwhile: what a failed write left is cut off by itself
        assert (await client.stats())["delay.fired"] == 3
        assert sorted(await values(client)) == [b"0", b"1", b"2"]


# Clocks


async def test_a_clock_that_is_set_back_delivers_nothing_early(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"v", deliver_at=clock_of(machine).now() / 1e6 + 100)
        await trio.sleep(50)
        clock_of(machine).step(-HOUR * 1_000_000)
        await trio.sleep(HOUR + 49)
        assert await values(client) == []
        await trio.sleep(2)
        assert await values(client) == [b"v"]


async def test_a_clock_that_is_set_forward_makes_due_what_it_passes_in_due_order(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client)
        for number in (5, 1, 4, 2, 3):
            await client.publish("orders", b"%d" % number, delay=600 * number)
        clock_of(machine).step(2_000 * 1_000_000)
        await trio.sleep(1.1)
        assert await values(client) == [b"1", b"2", b"3"]


# What happens to the log


async def test_retention_keeps_what_is_pending_and_not_its_neighbours(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client, retention_hours=1)
        await client.publish("orders", b"gone")
        await client.publish("orders", b"kept", delay=4 * HOUR)
        await client.publish("orders", b"gone too", delay=HOUR)
        await trio.sleep(3 * HOUR)
        assert await values(client) == []
        assert [each.offset for each in await client.delayed("orders")] == [1]
        await machine.crash()
        machine.disk.remove(INDEX)
        await machine.start()
        await trio.sleep(0.9 * HOUR)
        assert await values(client) == []
        await trio.sleep(0.2 * HOUR)
        assert await values(client) == [b"kept"]


@pytest.mark.parametrize("end", ["kill", "crash"])
async def test_a_purge_takes_what_is_pending(machine: Machine, autojump_clock: MockClock, end: str) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"v", delay=50)
        await client.purge("orders")
        assert await client.delayed("orders") == []
        assert not await client.cancel_delayed("orders", 0, 0)
        await getattr(machine, end)()
        await machine.start()
        await trio.sleep(100)
        assert await values(client) == []
        assert (await client.stats())["delay.pending"] == 0


async def test_a_deleted_topic_drops_its_own_alone(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.create_topic("others", partitions=1)
        for topic in ("orders", "others"):
            await client.publish(topic, b"v", delay=50)
        await client.delete_topic("orders")
        assert (await client.stats())["delay.pending"] == 1
        await orders(client)
        assert not await client.cancel_delayed("orders", 0, 0)
        await trio.sleep(100)
        assert await values(client) == []
        assert [message.value async for message in client.read("others", end="latest")] == [b"v"]


async def test_calls_that_find_a_topic_made_anew_at_once_all_find_it(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client, machine.client("other") as other:
        await orders(client)
        assert not await client.cancel_delayed("orders", 0, 0)
        await other.delete_topic("orders")
        await orders(other)
        await other.publish("orders", b"v", delay=5)
        heard: list[bool] = []

        async def cancel() -> None:
            heard.append(await client.cancel_delayed("orders", 0, 0))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(cancel)
        assert heard == [True] * 5


async def test_a_message_that_expires_before_its_time_is_never_seen(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"v", delay=50, ttl=10)
        await trio.sleep(60)
        assert await values(client) == []
        assert await client.delayed("orders") == []


@pytest.mark.parametrize("index_is_lost", [False, True])
async def test_a_message_that_expires_before_its_time_ends_as_expired(
    machine: Machine, autojump_clock: MockClock, index_is_lost: bool
) -> None:
    """As the log says it, with or without the index."""
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", b"too late", delay=50, ttl=10)
        await client.publish("orders", b"in time", delay=50, ttl=60)
        await client.publish("orders", b"for ever", delay=50)
        await trio.sleep(52)
        finished = await client.delayed("orders", state="finished")
        assert [(each.state, each.delivered_offset) for each in finished] == [
            ("expired", None),
            ("delivered", 4),
            ("delivered", 5),
        ]
        assert await values(client) == [b"in time", b"for ever"]
        counted = await client.stats()
        assert (counted["delay.fired"], counted["delay.expired"], counted["delay.pending"]) == (2, 1, 0)
        await machine.stop()
        if index_is_lost:
            machine.disk.remove(INDEX)
        await machine.start()
        assert await client.delayed("orders", state="finished") == finished
        await trio.sleep(60)
        assert await client.count_delayed("orders") == 0


async def test_a_repeat_by_id_is_answered_with_the_original(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        first = await client.publish("orders", b"v", delay=5, message_id="m")
        await trio.sleep(10)
        await machine.restart()
        assert await client.publish("orders", b"v", delay=5, message_id="m") == first
        await trio.sleep(10)
        assert await values(client) == [b"v"]


async def test_what_was_just_confirmed_is_counted_and_listed(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        for number in range(1, 5):
            await client.publish("orders", b"v", delay=50, acks="leader")
            assert await client.count_delayed("orders") == number
        await client.publish("orders", b"v", delay=50, acks="leader")
        assert len(await client.delayed("orders")) == 5


async def test_large_messages_and_long_keys_are_listed_as_they_are(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """One page of the client may take many answers of the broker, each cut short."""
    keys = [b"%d" % number if number < 6 else b"k" * 60_000 for number in range(40)]
    async with machine.both() as client:
        await orders(client)
        for number, key in enumerate(keys):
            value = bytes(1024 * 1024) if number < 6 else b"v"
            await client.publish("orders", value, key=key, priority=number % 5, delay=HOUR)
        page = await client.delayed("orders")
        assert [(each.offset, each.key, int(each.priority)) for each in page] == [
            (number, key, number % 5) for number, key in enumerate(keys)
        ]
        assert (page.pending, page.next) == (40, None)
        short = await client.delayed("orders", limit=35)
        assert (len(short), short.next) == (35, (0, 34))
        assert [each.offset for each in await client.delayed("orders", after=short.next)] == list(range(35, 40))


@pytest.mark.parametrize("after", [5, (0,), (0, 1, 2), "ab", {0, 1}], ids=str)
async def test_a_page_begins_behind_a_partition_and_an_offset(
    machine: Machine, autojump_clock: MockClock, after: Any
) -> None:
    async with machine.both() as client:
        await orders(client)
        with pytest.raises(goqueue.InvalidConfig, match=r"after=.* must be a partition and an offset"):
            await client.delayed("orders", after=after)


# Ids of cancelled messages


@pytest.mark.parametrize("end", ["", "restart", "kill", "crash"])
async def test_a_cancelled_message_frees_its_id(machine: Machine, autojump_clock: MockClock, end: str) -> None:
    """A later publish with that id is a new message, also after a restart of any kind."""
    async with machine.both() as client:
        await orders(client)
        first = await client.publish("orders", b"1", delay=HOUR, message_id="a")
        assert (await client.publish("orders", b"2", delay=HOUR, message_id="a")).repeated
        assert await client.cancel_delayed("orders", 0, first.offset or 0)
        if end:
            await getattr(machine, end)()
        if end in ("kill", "crash"):
            await machine.start()
        second = await client.publish("orders", b"3", delay=1, message_id="a")
        again = await client.publish("orders", b"4", message_id="a")
        assert (second.repeated, again.repeated) == (False, True)
        assert first.offset != second.offset == again.offset
        await trio.sleep(2)
        assert await values(client) == [b"3"]


async def test_a_message_that_was_moved_or_has_fired_keeps_its_id(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client)
        moved = await client.publish("orders", b"moved", delay=HOUR, message_id="a")
        fired = await client.publish("orders", b"fired", delay=1, message_id="b")
        assert await client.reschedule_delayed("orders", 0, moved.offset or 0, delay=2 * HOUR)
        await trio.sleep(100)
        assert not await client.cancel_delayed("orders", 0, fired.offset or 0)
        for message_id, first in (("a", moved), ("b", fired)):
            again = await client.publish("orders", b"again", message_id=message_id)
            assert (again, again.repeated) == (first, True)
        await trio.sleep(20)
        assert not (await client.publish("orders", b"again", message_id="b")).repeated


async def test_a_repeat_and_a_cancel_that_cross_are_decided_by_their_order_in_the_log(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """Whichever is first: the repeat that is told of the cancelled message delivers nothing, the other one does."""
    heard: list[goqueue.Published] = []

    async def repeat(client: goqueue.Client, number: int) -> None:
        for _ in range(number):
            await trio.lowlevel.checkpoint()
        heard.append(await client.publish("orders", b"again %d" % number, message_id="a"))

    async with machine.both() as client:
        await orders(client)
        first = await client.publish("orders", b"first", delay=HOUR, message_id="a")
        async with trio.open_nursery() as nursery:
            for number in range(0, 60, 3):
                nursery.start_soon(repeat, client, number)
            nursery.start_soon(client.cancel_delayed, "orders", 0, first.offset or 0)
        written = [each for each in heard if not each.repeated]
        assert len(written) == 1
        assert {each.offset for each in heard} == {first.offset, written[0].offset}
        assert len(await values(client)) == 1
