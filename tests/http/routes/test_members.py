"""Members of groups over HTTP: liveness, leases, credit, generations, streams."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.http.members.world import join, poll, values, world
from tests.http.world import ask, connected


async def test_a_member_polls_and_acks_until_nothing_is_left(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        joined = await join(http)
        assert joined["assignment"] == [{"topic": "orders", "partition": 0}]
        first = await poll(http, limit=4)
        assert values(first) == ["0", "1", "2", "3"]
        assert {message["attempt"] for message in first["messages"]} == {1}
        receipts = [message["receipt"] for message in first["messages"]]
        acked = await http.ask("POST", "/messages/ack", {"receipts": receipts})
        assert (acked.status, acked.json()) == (200, {"settled": 4, "stale": []})
        again = await http.ask("POST", "/messages/nack", {"receipts": receipts})
        assert (again.status, again.json()["stale"]) == (409, receipts)
        rest = await poll(http)
        assert values(rest) == [str(number) for number in range(4, 10)]
        mixed = [receipts[0], rest["messages"][0]["receipt"], "no receipt"]
        some = await http.ask("POST", "/messages/reject", {"receipts": mixed, "reason": "bad"})
        assert (some.status, some.json()["settled"], len(some.json()["stale"])) == (207, 1, 2)
        assert (await http.ask("POST", "/groups/g/leave", {"member_id": "m"})).status == 204
        await trio.sleep(1)  # the dead letter is on its way
        [partition] = (await client.group("g")).partitions
        assert (partition.committed, partition.in_flight) == (5, 0)


async def test_an_open_poll_is_a_sign_of_life_and_silence_is_none(autojump_clock: MockClock) -> None:
    async with world(0) as (_, client, http):
        await join(http, session_timeout=10)
        for _ in range(3):
            assert values(await poll(http, timeout=30)) == []
        assert len((await client.group("g")).members) == 1
        await trio.sleep(12)
        gone = await http.ask("GET", "/groups/g/poll?member_id=m&timeout=1")
        assert (gone.status, gone.json()["code"]) == (404, "unknown_member")
        await join(http)
        for _ in range(20):
            await trio.sleep(5)
            assert (await http.ask("POST", "/groups/g/heartbeat", {"member_id": "m"})).status == 200
        assert len((await client.group("g")).members) == 1


async def test_a_poll_is_answered_as_soon_as_there_is_a_message(autojump_clock: MockClock) -> None:
    async with world(0) as (_, client, http), trio.open_nursery() as nursery:
        await join(http)
        began = trio.current_time()

        async def publish() -> None:
            await trio.sleep(7)
            await client.publish("orders", b"late")

        nursery.start_soon(publish)
        assert values(await poll(http)) == ["late"]
        assert 7 <= trio.current_time() - began < 8


async def test_what_was_taken_for_a_client_that_has_gone_is_given_back_uncounted(autojump_clock: MockClock) -> None:
    async with world(0) as (machine, client, http):
        await join(http)
        async with connected(machine) as other:
            await other.send(b"GET /groups/g/poll?member_id=m HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await trio.sleep(1)
        await trio.sleep(1)
        await client.publish("orders", b"v")
        polled = await poll(http, timeout=1)
        assert [(each["value"], each["attempt"]) for each in polled["messages"]] == [("v", 1)]


async def test_another_member_takes_over_within_a_heartbeat(autojump_clock: MockClock) -> None:
    async with world(0, partitions=2) as (machine, client, http), connected(machine) as other:
        assert len((await join(http, "a"))["assignment"]) == 2
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: poll(http, "a", timeout=10))
            await trio.sleep(1)
            await join(other, "b")
            shared = await poll(other, "b", timeout=5)
            assert len(shared["assignment"]) == 1
        both = (await client.group("g")).members
        assert sorted(len(member.assignment) for member in both) == [1, 1]


async def test_an_older_generation_is_told_the_newest(autojump_clock: MockClock) -> None:
    async with world(0, partitions=2) as (machine, _, http), connected(machine) as other:
        first = await join(http, "a")
        await join(other, "b")
        await poll(http, "a", timeout=0)
        stale = await http.ask("GET", f"/groups/g/poll?member_id=a&generation={first['generation']}")
        assert (stale.status, stale.json()["code"]) == (409, "stale_generation")
        newest = stale.json()["details"]
        assert len(newest["assignment"]) == 1
        good = await http.ask("GET", f"/groups/g/poll?member_id=a&timeout=0&generation={newest['generation']}")
        assert good.status == 200


async def test_a_member_that_never_settles_is_stopped_at_a_bound(autojump_clock: MockClock) -> None:
    async with world(0) as (_, client, http):
        async with client.producer("orders") as producer:
            await producer.send_many([b"v"] * 5_000)
        await join(http, session_timeout=60)
        for _ in range(4):
            assert len((await poll(http, limit=1_000))["messages"]) == 1_000
        full = await http.ask("GET", "/groups/g/poll?member_id=m")
        assert (full.status, full.json()["code"]) == (429, "in_flight_full")
        assert full.headers["retry-after"] == "1"
        await trio.sleep(31)
        assert len((await poll(http, limit=1_000))["messages"]) == 1_000


async def test_a_message_on_its_last_delivery_comes_alone_and_comes(autojump_clock: MockClock) -> None:
    async with world(4) as (_, _, http):
        await join(http, settings={"max_deliveries": 2, "retry_first": 0.1})
        assert len((await poll(http, visibility=1))["messages"]) == 4
        await trio.sleep(1.1)
        lonely = []
        for _ in range(4):
            messages = (await poll(http, timeout=5))["messages"]
            assert [message["attempt"] for message in messages] == [2]
            lonely.append(messages[0]["value"])
            assert values(await poll(http, timeout=0)) == [], "nothing beside it"
            await http.ask("POST", "/messages/ack", {"receipts": [messages[0]["receipt"]]})
        assert sorted(lonely) == ["0", "1", "2", "3"]


async def test_visibility_is_extended(autojump_clock: MockClock) -> None:
    async with world(1) as (_, _, http):
        await join(http)
        [message] = (await poll(http, visibility=5))["messages"]
        extended = await http.ask("POST", "/messages/visibility", {"receipts": [message["receipt"]], "seconds": 60})
        assert extended.json() == {"settled": 1, "stale": []}
        assert values(await poll(http, timeout=20)) == []
        assert (await http.ask("POST", "/messages/ack", {"receipts": [message["receipt"]]})).status == 200


async def test_a_stream_reads_on_and_commits(autojump_clock: MockClock) -> None:
    async with world(6, partitions=2) as (machine, client, http):
        joined = await join(http, settings={"mode": "stream"})
        first = await poll(http, limit=4)
        second = await poll(http)
        assert sorted(values(first) + values(second)) == [str(number) for number in range(6)]
        assert "receipt" not in first["messages"][0]
        commit = {"member_id": "m", "generation": joined["generation"], "offsets": {"orders": {"0": 2, "1": 3}}}
        done = await http.ask("POST", "/groups/g/offsets", commit)
        assert done.status == 200, done.body
        stale = await http.ask("POST", "/groups/g/offsets", {**commit, "generation": 0})
        assert (stale.status, stale.json()["results"][0]["code"]) == (409, "stale_generation")
        assert (await http.ask("GET", "/groups/g/offsets")).json() == {"offsets": {"orders": {"0": 2, "1": 3}}}
        await http.ask("POST", "/groups/g/leave", {"member_id": "m"})
        await join(http, "n", settings={"mode": "stream"})
        assert values(await poll(http, "n")) == ["4"]
        await http.ask("POST", "/groups/g/leave", {"member_id": "n"})
        outside = await ask(machine, "POST", "/groups/g/offsets", {"offsets": {"orders": {"0": 0}}})
        assert outside.status == 200, outside.body
        assert (await client.group("g")).partitions[0].committed == 0


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ({"orders": {str(number): 1 for number in range(10_001)}}, "10,001 offsets; commit 10,000 at a time"),
        ({f"t{number}": {"0": 1} for number in range(1_001)}, "offsets: "),
        ({"orders": {"x": 1}}, "'x' is no partition"),
        ({"orders": {"0": -1}}, "offsets.orders.0: "),
        ({"orders": 1}, "offsets.orders: "),
        (7, "offsets: "),
    ],
)
async def test_a_commit_that_is_none_is_refused_as_a_whole(
    offsets: Any, words: str, autojump_clock: MockClock
) -> None:
    async with world(1) as (_, _, http):
        joined = await join(http, settings={"mode": "stream"})
        commit = {"member_id": "m", "generation": joined["generation"], "offsets": offsets}
        refused = await http.ask("POST", "/groups/g/offsets", commit)
        assert (refused.status, refused.json()["code"]) == (400, "invalid_request"), refused.body
        assert words in refused.json()["message"]


async def test_a_stream_lets_go_of_a_partition_only_when_it_says_so(autojump_clock: MockClock) -> None:
    async with world(0, partitions=2) as (machine, _, http), connected(machine) as other:
        await join(http, "a", settings={"mode": "stream"})
        await join(other, "b", settings={"mode": "stream"})
        told = await poll(http, "a", timeout=5)
        assert len(told["assignment"]) == 1
        assert (await poll(other, "b", timeout=1))["assignment"] == []
        beat = {"member_id": "a", "generation": told["generation"]}
        assert (await http.ask("POST", "/groups/g/heartbeat", beat)).status == 200
        assert len((await poll(other, "b", timeout=1))["assignment"]) == 1


async def test_after_a_restart_a_member_joins_again_and_settles_what_it_had(autojump_clock: MockClock) -> None:
    async with world(3) as (machine, _, http):
        await join(http)
        receipts = [message["receipt"] for message in (await poll(http))["messages"]]
        await machine.restart()
        async with connected(machine) as again:
            unknown = await again.ask("GET", "/groups/g/poll?member_id=m")
            assert (unknown.status, unknown.json()["code"]) == (404, "unknown_member")
            assert (await again.ask("POST", "/messages/ack", {"receipts": receipts})).json()["settled"] == 3
            await join(again)
            assert values(await poll(again, timeout=1)) == []
