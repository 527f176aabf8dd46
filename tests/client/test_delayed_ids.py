"""Delayed messages by their message ids: found for as long as they are pending, whatever happens meanwhile."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.actors.delays import ids as delayedids
from goqueue.core.delays import pendingids
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

HOUR = 3_600


async def values(client: goqueue.Client) -> set[bytes]:
    return {message.value async for message in client.read("orders", end="latest")}


@pytest.mark.parametrize("end", ["", "restart", "crash"])
@pytest.mark.parametrize("asked_before", [False, True])
async def test_a_pending_message_is_found_by_its_id_long_after_it_was_published(
    machine: Machine, autojump_clock: MockClock, end: str, asked_before: bool
) -> None:
    """Beyond the two minutes in which a repeat is noticed, and after a restart of either kind."""
    async with machine.client() as client:
        async with machine.broker():
            await client.create_topic("orders")
            if asked_before:
                assert await client.delayed_message("orders", "reminder 7") is None
            for number in range(20):
                await client.publish("orders", b"%d" % number, delay=HOUR, message_id=f"reminder {number}")
            await client.publish("orders", b"without an id", delay=HOUR)
            await trio.sleep(200)
            if not end:
                await _check_and_cancel(client)
                return
            if end == "crash":
                await machine.crash()
        async with machine.broker():
            await _check_and_cancel(client)


async def _check_and_cancel(client: goqueue.Client) -> None:
    found = await client.delayed_message("orders", b"reminder 7")
    assert found is not None
    assert (found.state, found.message_id) == ("pending", b"reminder 7")
    assert await client.cancel_delayed("orders", message_id="reminder 7")
    assert not await client.cancel_delayed("orders", message_id="reminder 7")
    assert await client.reschedule_delayed("orders", message_id="reminder 8", delay=2 * HOUR)
    assert await client.deliver_delayed("orders", message_id="reminder 9")
    assert await client.delayed_message("orders", "reminder 7") is None
    await trio.sleep(1)
    assert await values(client) == {b"9"}
    await trio.sleep(HOUR)
    late = {b"7", b"8"}
    assert await values(client) == {b"%d" % number for number in range(20)} - late | {b"without an id"}
    assert await client.delayed_message("orders", "reminder 9") is None
    await trio.sleep(HOUR)
    assert b"8" in await values(client)


async def test_an_id_stands_for_all_pending_messages_that_have_it(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders")
        for number, (key, hours) in enumerate(((b"a", 3), (b"b", 1), (b"c", 2))):
            await client.publish("orders", key, key=key, partition=number, delay=hours * HOUR, message_id="same")
        await trio.sleep(130)
        await client.publish("orders", b"again", key=b"a", partition=0, delay=4 * HOUR, message_id="same")
        first = await client.delayed_message("orders", "same")
        assert first is not None
        assert first.key == b"b"
        of_a = await client.delayed_message("orders", "same", key=b"a")
        assert of_a is not None
        assert of_a.key == b"a"
        assert of_a.due == pytest.approx(machine.clock.now() / 1e6 + 3 * HOUR - 130, abs=1)
        assert await client.cancel_delayed("orders", message_id="same", key=b"a")
        assert await client.delayed_message("orders", "same", key=b"a") is None
        assert await client.cancel_delayed("orders", message_id="same")
        assert await client.count_delayed("orders") == 0


async def test_the_key_finds_a_message_though_partitions_were_added_since(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        for number in range(10):
            await client.publish("orders", b"v", key=b"%d" % number, delay=HOUR, message_id=b"%d" % number)
        await client.add_partitions("orders", 5)
        for number in range(10):
            key = b"%d" % number
            assert await client.cancel_delayed("orders", message_id=key, key=key)
        assert not await client.cancel_delayed("orders", 3, message_id="0")


async def test_ids_with_the_same_hash_are_told_apart(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pendingids, "_hash_of", lambda _: 5)
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            await producer.send_many([b"v"] * 1_500, delay=HOUR, message_id="many")
        await client.publish("orders", b"other", delay=HOUR, message_id="other")
        found = await client.delayed_message("orders", "other")
        assert found is not None
        assert found.offset == 1_500
        assert await client.cancel_delayed("orders", message_id="many/1499")
        assert await client.count_delayed("orders") == 1_500


async def test_ids_of_messages_that_ended_are_forgotten(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delayedids, "STALE_MAX", 100)
    kept = list[int]()
    drop_stale = delayedids.DelayedIds.drop_stale

    async def drop_and_count(ids: delayedids.DelayedIds) -> None:
        await drop_stale(ids)
        kept.append(len(ids._ids or ()))

    monkeypatch.setattr(delayedids.DelayedIds, "drop_stale", drop_and_count)
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        await client.delayed_message("orders", "none")
        async with client.producer("orders") as producer:
            for number in range(20):
                await producer.send_many([b"v"] * 50, delay=1, message_id=f"{number}")
                await trio.sleep(2)
        assert await client.count_delayed("orders") == 0
    assert max(kept) <= 250


@pytest.mark.parametrize(
    "named",
    [{}, {"partition": 0}, {"offset": 0}, {"partition": 0, "offset": 0, "message_id": "a"}, {"key": b"k"}],
    ids=str,
)
async def test_a_message_is_named_in_one_way(
    machine: Machine, autojump_clock: MockClock, named: dict[str, Any]
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders")
        for call in (
            client.cancel_delayed("orders", **named),
            client.deliver_delayed("orders", **named),
            client.reschedule_delayed("orders", delay=1, **named),
        ):
            with pytest.raises(goqueue.InvalidConfig, match="name the message by its partition and offset, or by"):
                await call


@pytest.mark.parametrize("message_id", [None, b"", "", "x" * 129, 5])
async def test_an_id_that_is_none_is_refused(machine: Machine, autojump_clock: MockClock, message_id: Any) -> None:
    async with machine.both() as client:
        await client.create_topic("orders")
        with pytest.raises(goqueue.InvalidMessage):
            await client.delayed_message("orders", message_id)


async def test_the_list_of_delayed_messages_shows_their_ids(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"v", delay=HOUR, message_id="a")
        await client.publish("orders", b"v", delay=HOUR)
        assert [each.message_id for each in await client.delayed("orders")] == [b"a", None]
