"""`retention=acked` from end to end: what every group is done with goes, and whoever holds the rest is named."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.link.topics import HeldSegments, Partition
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

ROUND = 61
"""Seconds until the janitor has been everywhere."""
VALUE = bytes(400)
"""Two of them fill a segment."""
DAY = 24 * 3_600


async def orders(client: goqueue.Client, **config: Any) -> None:
    await client.create_topic("orders", 1, {"retention": "acked", "segment_bytes": 1_100, **config})


async def fill(client: goqueue.Client, count: int = 10) -> None:
    for _ in range(count):
        await client.publish("orders", VALUE)


async def ack(client: goqueue.Client, group: str, count: int) -> None:
    async with client.consumer("orders", group=group) as consumer:
        if count:
            await consumer.ack(await consumer.receive(max_messages=count))


async def partition(client: goqueue.Client) -> Partition:
    [found] = (await client.topic("orders")).partitions
    return found


async def start_after_a_round(client: goqueue.Client) -> int:
    await trio.sleep(ROUND)
    return (await partition(client)).start


async def test_what_every_group_has_acked_goes(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        await fill(client)
        assert await start_after_a_round(client) == 0  # nobody has read it
        await ack(client, "billing", 10)
        await ack(client, "audit", 3)
        assert await start_after_a_round(client) == 2
        await ack(client, "audit", 7)
        assert await start_after_a_round(client) == 8
        assert await start_after_a_round(client) == 8
        await trio.sleep(DAY)  # the last segment counts as finished then
        assert await start_after_a_round(client) == 10
        await fill(client, 1)
        async with client.consumer("orders", group="billing") as consumer:
            assert [message.offset for message in await consumer.receive()] == [10]


async def test_a_group_holds_messages_until_it_is_deleted(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        await fill(client)
        await ack(client, "billing", 10)
        await ack(client, "audit", 0)
        assert await start_after_a_round(client) == 0
        await client.delete_group("audit")
        assert await start_after_a_round(client) == 8


async def test_age_removes_nothing_where_acks_decide(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client, retention_hours=1)
        await fill(client)
        await ack(client, "billing", 0)
        await trio.sleep(2 * DAY)
        assert (await partition(client)).start == 0
        await client.alter_topic("orders", {"retention": "time"})
        assert await start_after_a_round(client) == 10


@pytest.mark.parametrize("ending", ["crash", "kill", "stop"])
async def test_what_is_held_stays_held_after_a_restart(
    ending: str, machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client)
        await fill(client)
        await ack(client, "billing", 10)
        await ack(client, "audit", 5)
        await trio.sleep(2)
        await getattr(machine, ending)()
        await machine.start()
        assert await start_after_a_round(client) == 4
        assert (await client.group("audit")).partitions[0].removed_unacked == 0


async def test_a_group_whose_ledger_was_lost_holds_everything(machine: Machine, autojump_clock: MockClock) -> None:
    """G13: it has no members, so it has not begun anew when the janitor comes."""
    async with machine.both() as client:
        await orders(client)
        await fill(client)
        await ack(client, "audit", 5)
        await trio.sleep(5)
        await machine.stop()
        folder = "/data/logs/orders/0/groups"
        for name in machine.disk.list(folder):
            machine.disk.remove(f"{folder}/{name}")
        machine.disk.remove_directory(folder)
        await machine.start()
        await ack(client, "billing", 10)
        assert await start_after_a_round(client) == 0


async def test_the_description_names_who_holds_the_oldest_segment(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client)
        await fill(client)
        held = (await partition(client)).held
        assert held == HeldSegments(None, None, 2, 0, 1, 4, held.size if held else 0)
        await ack(client, "billing", 10)
        assert (await partition(client)).held is None
        await ack(client, "audit", 3)
        held = (await partition(client)).held
        assert held == HeldSegments("audit", 3, 1, 2, 3, 3, held.size if held else 0)
        why = await client.why("audit")
        assert "; 3 segments of orders/0 (" in why
        assert why.endswith("bytes) stay until the group is done with them (retention=acked)")
        assert "retention" not in await client.why("billing")


async def test_other_topics_have_no_holder(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        for settings in ({"retention": "time"}, {"cleanup": "compact"}):
            await client.create_topic("other", 1, {"segment_bytes": 1_100, "retention": "acked", **settings})
            for _ in range(5):
                await client.publish("other", VALUE, key=b"k")
            [found] = (await client.topic("other")).partitions
            assert found.held is None
            await client.delete_topic("other")
