"""Why nothing comes to a stream: what its consumer says in its log, and what whoever asks is told in each state."""

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.errors import DamagedData
from goqueue.net.wire.groups import Because, Why
from tests.client.consuming.test_explaining import said
from tests.client.test_client import Machine, machine
from tests.net.streams import fill, offsets, receive_on, some, stream

__all__ = ["machine"]

LOG = "/data/logs/orders/0/00000000000000000000.log"


@pytest.fixture(autouse=True)
def talkative(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goqueue.client")


def nothing_came(why: str, level: str = "INFO", seconds: int = 30) -> tuple[str, str]:
    return level, f"group audit: nothing came for {seconds} s: {why}"


async def facts(client: goqueue.Client, member: str | None = None) -> dict[str, Any]:
    return dict((await client.call(Why("audit", member), Because)).facts)


async def damaged(machine: Machine, client: goqueue.Client) -> int:
    """Ten messages; the offset of one that cannot be read, and is found when somebody reads."""
    await client.create_topic("orders", partitions=1)
    for number in range(10):
        await client.publish("orders", b"%d" % number * 100)
    machine.disk.flip_bit(LOG, machine.disk.size(LOG) // 2, 3)
    with pytest.raises(DamagedData) as met:
        async for _ in client.read("orders", end="latest"):
            pass
    return met.value.offset


def because_of_damage(offset: int) -> str:
    cure = "restore the file, or give it up with `goqueue group skip audit orders/0 FROM-TO`"
    return f"1 message of orders/0 is damaged, from offset {offset} on in {LOG}; {cure}"


async def hesitate(_: object) -> None:
    """A program that is to choose where to begin, and does not come to an end with that."""
    await trio.sleep_forever()


# What the consumer says by itself


async def test_a_stream_that_waits_says_that_nothing_was_published(
    machine: Machine, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 0)
        async with stream(client, member_id="ann") as consumer:
            assert await consumer.receive(timeout=29) == []
            assert said(caplog) == []
            with trio.move_on_after(300):
                await anext(consumer)
    never = "nothing is left to deliver to ann: nothing was ever published on its 1 partition"
    assert said(caplog) == [nothing_came(never, seconds=seconds) for seconds in (30, 90, 210)]


async def test_what_comes_ends_the_spell_of_a_stream(
    machine: Machine, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 0)
        async with stream(client, member_id="ann") as consumer:
            for number in range(4):
                await consumer.receive(timeout=25)
                await client.publish("orders", b"%d" % number)
                await trio.sleep(100)  # at work on something else: it lies ready meanwhile
                assert offsets(await consumer.receive()) == [number]
            assert said(caplog) == []
            await consumer.receive(timeout=33)  # looks come a second apart
            [(level, text)] = said(caplog)
            assert level == "INFO"
            assert "nothing is left to deliver to ann: the last message on its 1 partition was published" in text


async def test_a_stream_that_its_own_program_has_paused_says_so_and_asks_nobody(
    machine: Machine, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 5, partitions=2)
        async with stream(client, member_id="ann") as consumer:
            await trio.sleep(1)
            await consumer.pause()
            assert await consumer.receive(timeout=31) == []
            assert said(caplog) == [
                nothing_came("this consumer has paused orders/0, orders/1 itself, all that it has")
            ]
            because = await client.why("audit")
            assert because.startswith("everything that is there was fetched by ann and is not committed yet: 10 me")
            assert because.endswith(" s (its program is busy, or has paused it)")


async def test_what_a_stream_has_paused_is_said_beside_the_reason_for_the_others(
    machine: Machine, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 0, partitions=2)
        async with stream(client, member_id="ann") as consumer:
            await trio.sleep(1)
            await consumer.pause(1)
            await client.publish("orders", b"a", partition=1)
            assert await consumer.receive(timeout=31) == []
            because = (
                "ann asks for messages, but not for those of orders/1 for 30 s (its program has paused it): "
                "1 message waits for it"
            )
            assert said(caplog) == [nothing_came(f"{because}; this consumer has paused orders/1 itself")]
            assert await client.why("audit", "ann") == because.replace("30 s", "31 s")
            await consumer.resume()
            assert len(await consumer.receive()) == 1


async def test_a_stream_waits_for_the_owner_before_and_names_it(
    machine: Machine, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 20, partitions=2)
        async with stream(client, member_id="ann") as ann:
            assert len(await some(ann, 40)) == 40
            async with stream(client, member_id="bob") as bob:
                assert await bob.receive(timeout=31) == []
                because = (
                    "paused by a rebalance for {} s, waiting for ann to let go: 20 messages wait on 1 partition"
                )
                assert said(caplog) == [nothing_came(because.format(30), "WARNING")]
                assert await client.why("audit", "bob") == because.format(31)
                assert await client.why("audit") == because.format(31)


async def test_a_stream_that_has_paused_what_is_damaged_is_told_of_the_damage(
    machine: Machine, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """One that has not hears of it as an error, at once."""
    async with machine.both() as client:
        bad = await damaged(machine, client)
        await client.add_partitions("orders", 2)
        async with stream(client, member_id="ann") as consumer:
            with pytest.raises(DamagedData):
                await receive_on(consumer, [])
            await consumer.pause(0)
            assert await consumer.receive(timeout=34) == []
            because = because_of_damage(bad)
            [(level, text)] = said(caplog)  # after 30 s, or with the next look a second later
            assert level == "WARNING"
            assert text.endswith(f"s: {because}; this consumer has paused orders/0 itself")
            assert await client.why("audit", "ann") == because


# What whoever asks is told


async def test_a_stream_without_members_says_how_many_wait(machine: Machine, autojump_clock: MockClock) -> None:
    """What was fetched and not committed waits too."""
    async with machine.both() as client:
        await fill(client, 10, partitions=2)
        async with stream(client, auto_commit=False) as consumer:
            await some(consumer, 20)
        assert await client.why("audit") == "the group has no members: 20 messages wait on 2 partitions"
        await client.commit("audit", "orders", {0: 10, 1: 7})
        assert await client.why("audit") == "the group has no members: 3 messages wait on 1 partition"


async def test_a_stream_without_a_topic_says_so(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client, stream(client, "orders-*", member_id="ann"):
        assert await client.why("audit", "ann") == "there is no topic for ann to read: none is or fits orders-*"


async def test_what_a_stream_has_fetched_does_not_wait_for_it(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 7)
        async with stream(client, member_id="ann") as consumer:
            assert offsets(await consumer.receive(3)) == [0, 1, 2]
            await trio.sleep(20)
            assert await client.why("audit") == (
                "everything that is there was fetched by ann and is not committed yet: 7 messages"
            )
            found = await facts(client, "ann")
            assert (found["reason"], found["lag"], found["ready"], found["fetched"]) == ("uncommitted", 7, 0, 7)
            assert (found["in_flight"], found["held_unsettled"], found["oldest_lease_member"]) == (0, 0, None)
            assert len(await some(consumer, 4)) == 4
            await consumer.commit()
            assert (await facts(client))["reason"] == "nothing_left"


async def test_a_stream_that_reads_says_how_far_it_is(machine: Machine, autojump_clock: MockClock) -> None:
    """Large messages, so that they do not all come at once."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        for number in range(20):
            await client.publish("orders", b"%d" % number + bytes(200_000))
        async with stream(client, member_id="ann", auto_commit=False) as consumer:
            taken = await some(consumer, 10)
            because = await client.why("audit")
            assert because.startswith("messages are being fetched: the last 0.0 s ago by ann, ")
            assert because.endswith(" not committed yet, lag 20")
            await consumer.commit(taken[4])
            await trio.sleep(45)
            because = await client.why("audit")
            assert because.startswith("ann has fetched ")
            silence = "has not asked for more for 45 s (its program is busy, or has paused it)"
            assert f" messages that are not committed, and {silence}: " in because
            found = await facts(client)
            assert found["reason"] == "busy"
            assert found["fetched"] + found["ready"] == found["lag"] == 15
            assert because.endswith(f": {found['ready']} messages wait for it")


async def test_a_stream_that_has_asked_for_nothing_is_named(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 5)
        async with stream(client, member_id="ann", on_assigned=hesitate):
            await trio.sleep(40)
            because = "ann has not asked for messages since it joined 40 s ago: 5 messages wait for it"
            assert await client.why("audit") == because
            assert await client.why("audit", "ann") == because


async def test_who_asked_before_the_broker_was_started_again_is_noted_anew(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 5)
        async with stream(client, member_id="ann", auto_commit=False) as consumer:
            await some(consumer, 5)
            await machine.restart()
            await trio.sleep(15)
            assert await client.why("audit", "ann") == (
                "everything that is there was fetched by ann and is not committed yet: 5 messages"
            )


async def test_where_the_next_owner_is_counts_and_not_where_the_one_before_was(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 5)
        async with stream(client, member_id="ann", auto_commit=False) as consumer:
            await some(consumer, 5)
        async with stream(client, member_id="ann", on_assigned=hesitate):
            await trio.sleep(10)
            found = await facts(client)
            assert (found["fetched"], found["ready"]) == (0, 5)


async def test_a_partition_that_was_taken_from_its_owner_is_not_fetched_by_the_next(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 20, partitions=2)
        async with stream(client, member_id="ann") as ann:
            await some(ann, 40)
            async with stream(client, member_id="bob", on_assigned=hesitate):
                await trio.sleep(70)
                found = await facts(client, "bob")
                assert (found["fetched"], found["ready"]) == (0, 20)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["met while reading", "found at the start"])
async def test_a_stream_before_damage_names_where_it_is(
    is_restarted: bool, machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        bad = await damaged(machine, client)
        if is_restarted:
            await machine.restart()
        async with stream(client, member_id="ann", auto_commit=False) as consumer:
            assert len(await some(consumer, bad)) == bad
            with pytest.raises(DamagedData):
                await consumer.receive()
            because = because_of_damage(bad)
            assert await client.why("audit") == because
            found = await facts(client, "ann")
            assert (found["reason"], found["damaged"], found["ready"]) == ("damage_ahead", 1, 9 - bad)
            await consumer.seek(0, bad + 1)
            assert len(await some(consumer, 9 - bad)) == 9 - bad
            assert (await facts(client))["reason"] == "uncommitted"
