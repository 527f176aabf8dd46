"""Settling by receipts: of any groups and topics, by anybody who has them."""

import trio
from trio.testing import MockClock

from goqueue.http.members.receipts import DELIVERIES_AT_ONCE
from tests.http.members.world import join, poll, receipts, settle, values, world
from tests.http.world import connected


async def test_receipts_of_several_groups_and_topics_are_settled_together(autojump_clock: MockClock) -> None:
    async with world(3) as (machine, client, http), connected(machine) as other:
        await client.create_topic("bills", partitions=1)
        await client.publish("bills", b"bill")
        await join(http)
        body = {"topics": ["orders", "bills"], "member_id": "n"}
        await http.ask("POST", "/groups/h/join", body)
        found = receipts(await poll(http))
        for _ in range(2):
            polled = (await http.ask("GET", "/groups/h/poll?member_id=n&timeout=1")).json()
            found += receipts(polled)
        assert len(found) == 7
        done = await settle(other, "ack", [*found, found[0]])
        assert (done.status, done.json()) == (200, {"settled": 7, "stale": []})
        for group in "gh":
            assert [each.lag for each in (await client.group(group)).partitions] == [0] * (1 + (group == "h"))


async def test_receipts_of_a_topic_that_is_gone_or_was_made_again_are_stale(autojump_clock: MockClock) -> None:
    async with world(1) as (_, client, http):
        await join(http)
        old = receipts(await poll(http))
        await client.delete_topic("orders")
        gone = await settle(http, "ack", old)
        assert (gone.status, gone.json()) == (409, {"settled": 0, "stale": old})
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"new")
        again = await settle(http, "ack", old)
        assert (again.status, again.json()["stale"]) == (409, old)
        await trio.sleep(5)
        assert values(await poll(http)) == ["new"]


async def test_a_receipt_of_a_topic_that_was_made_again_is_good_at_once(autojump_clock: MockClock) -> None:
    """The gateway knew the topic from before; old receipts beside it are stale, and nothing else."""
    async with world(1) as (_, client, http):
        await join(http)
        old = receipts(await poll(http))
        await settle(http, "release", old)
        await client.delete_topic("orders")
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"new")
        await trio.sleep(5)
        new = receipts(await poll(http))
        done = await settle(http, "ack", [*old, *new])
        assert (done.status, done.json()) == (207, {"settled": 1, "stale": old})
        assert (await client.group("g")).partitions[0].lag == 0


async def test_each_word_does_what_it_says(autojump_clock: MockClock) -> None:
    async with world(4) as (_, client, http):
        await join(http)
        ack, nack, release, reject = receipts(await poll(http))
        assert (await settle(http, "ack", [ack])).status == 200
        assert (await settle(http, "nack", [nack], delay=5, reason="later")).status == 200
        assert (await settle(http, "release", [release])).status == 200
        assert (await settle(http, "reject", [reject], reason="never")).status == 200
        polled = await poll(http)
        assert [(each["value"], each["attempt"]) for each in polled["messages"]] == [("2", 1)]
        again = await poll(http, timeout=10)
        assert [(each["value"], each["attempt"]) for each in again["messages"]] == [("1", 2)]
        [letter] = [message async for message in client.read("orders.dlq", end="latest")]
        assert (letter.value, letter.headers["goqueue-dlq-reason"]) == (b"3", b"never")


async def test_receipts_that_are_none_and_lists_that_are_none_are_told(autojump_clock: MockClock) -> None:
    async with world(2) as (_, _, http):
        await join(http)
        good = receipts(await poll(http))
        forged = good[0].replace("g:", "nobody:")
        some = await settle(http, "ack", [good[0], "nonsense", forged])
        assert (some.status, some.json()) == (207, {"settled": 1, "stale": ["nonsense", forged]})
        wrong: list[dict[str, object]] = [
            {"receipts": []},
            {},
            {"receipts": good, "seconds": 1},
            {"receipts": ["x"] * 10_001},
        ]
        for body in wrong:
            assert (await http.ask("POST", "/messages/ack", body)).status == 400
        early = await settle(http, "visibility", good[1:], seconds=0)
        assert early.status == 400


async def test_receipts_of_many_deliveries_are_settled_by_and_by(autojump_clock: MockClock) -> None:
    """One request for all of them would hold up everybody else while each is passed on."""
    async with world(1) as (_, client, http):
        await join(http)
        [good] = receipts(await poll(http))
        forged = [f"g:orders:0:0:1:{number:012x}" for number in range(3 * DELIVERIES_AT_ONCE)]
        before = (await client.stats())["requests"]
        done = await settle(http, "ack", [*forged, good])
        assert (done.status, done.json()) == (207, {"settled": 1, "stale": forged})
        assert (await client.stats())["requests"] - before >= 4
