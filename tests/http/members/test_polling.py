"""Polls: who is alive, who is busy, what is given back, and what an assignment that changes does to them."""

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.consuming.options import IN_FLIGHT_MAX
from goqueue.http import gateway
from tests.http.members.world import SHORT, beat, join, poll, polling, receipts, settle, values, world
from tests.http.world import HttpClient, connected


async def members_of(client: goqueue.Client) -> list[str]:
    return [member.member_id for member in (await client.group("g")).members]


# Liveness


async def test_a_poll_is_heard_of_often_enough_for_the_shortest_session(autojump_clock: MockClock) -> None:
    async with world(0) as (_, client, http):
        await join(http, session_timeout=1)
        assert values(await poll(http, timeout=20)) == []
        assert await members_of(client) == ["m"]


async def test_nobody_speaks_for_a_member_whose_poll_was_left(autojump_clock: MockClock) -> None:
    async with world(0) as (machine, client, http):
        await join(http, session_timeout=10)
        async with connected(machine) as other:
            await other.send(f"GET {polling(timeout=60)} {SHORT}".encode())
            await trio.sleep(5)
        await trio.sleep(7)
        assert await members_of(client) == ["m"], "the poll was heard of until it was left"
        await trio.sleep(4)
        assert await members_of(client) == []


async def test_a_poll_that_waits_for_another_one_of_its_member_ends_with_its_client(
    autojump_clock: MockClock,
) -> None:
    async with world(0) as (machine, client, http), trio.open_nursery() as nursery:
        await join(http, session_timeout=5)
        nursery.start_soon(lambda: poll(http, timeout=10))
        await trio.sleep(1)
        async with connected(machine) as other:
            await other.send(f"GET {polling(timeout=60)} {SHORT}".encode())
            await trio.sleep(1)
        await trio.sleep(12)
        await client.publish("orders", b"v")
        await trio.sleep(2)
        assert (await client.group("g")).partitions[0].in_flight == 0, "nobody is there to take it"
        assert await members_of(client) == []


async def test_one_poll_of_a_member_takes_at_a_time_and_each_message_comes_once(autojump_clock: MockClock) -> None:
    async with world(20) as (machine, _, http), connected(machine) as other:
        await join(http)
        found: list[str] = []

        async def take(each: HttpClient) -> None:
            for _ in range(5):
                found.extend(values(await poll(each, limit=2, timeout=5)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, http)
            nursery.start_soon(take, other)
        assert sorted(map(int, found)) == list(range(20))


async def test_a_restarted_broker_takes_the_member_back_under_its_id_in_the_middle_of_a_poll(
    autojump_clock: MockClock,
) -> None:
    """Its receipts are good all the while."""
    async with world(3) as (machine, _, http):
        await join(http)
        held = receipts(await poll(http, limit=2))
        await machine.kill()
        await machine.start()
        async with connected(machine) as again:
            unknown = await beat(again)
            assert (unknown.status, unknown.json()["code"]) == (404, "unknown_member")
            await join(again)
            assert values(await poll(again)) == ["2"], "what it holds is not handed out twice"
            assert (await settle(again, "ack", held)).status == 200


# Messages for nobody


async def test_messages_that_come_while_the_client_goes_are_given_back_uncounted(
    autojump_clock: MockClock,
) -> None:
    """Whenever it goes: before they are taken, while they are, or behind that."""
    for delay in (0.0, 0.01, 0.02, 0.05):
        async with world(0) as (machine, client, http):
            machine.slow(0.01)
            await join(http)
            async with connected(machine) as other, trio.open_nursery() as nursery:
                await other.send(f"GET {polling()} {SHORT}".encode())
                await trio.sleep(1)
                nursery.start_soon(client.publish, "orders", b"v")
                await trio.sleep(delay)
                await other.stream.aclose()
            await trio.sleep(0.1)
            in_flight = (await client.group("g")).partitions[0].in_flight
            polled = await poll(http, timeout=60)
            assert [(each["value"], each["attempt"]) for each in polled["messages"]] == [("v", 1 + in_flight)]


async def test_an_answer_for_which_there_is_no_room_is_given_back(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "ANSWERS_BYTES_MAX", 1)  # one at a time
    async with world(0) as (machine, client, http), connected(machine) as reader:
        await join(http)
        for _ in range(3):
            await client.publish("orders", b"x" * 60_000)
        await reader.send(f"GET /topics/orders/messages {SHORT}".encode())
        await trio.sleep(1)
        refused = await http.ask("GET", polling())
        assert (refused.status, refused.json()["code"]) == (503, "overloaded")
        assert (await client.group("g")).partitions[0].in_flight == 0
        await reader.stream.aclose()
        polled = await poll(http)
        assert [each["attempt"] for each in polled["messages"]] == [1, 1, 1]


async def test_a_head_request_takes_nothing(autojump_clock: MockClock) -> None:
    async with world(1) as (machine, client, http):
        await join(http)
        async with connected(machine) as other:
            await other.send(f"HEAD {polling()} {SHORT}".encode())
            assert (await other.stream.receive_some(4_096)).startswith(b"HTTP/1.1 405 ")
        assert (await client.group("g")).partitions[0].in_flight == 0
        assert values(await poll(http)) == ["0"]


# Generations


async def test_a_partition_that_comes_to_a_member_is_read_by_its_open_poll(autojump_clock: MockClock) -> None:
    """Also when a heartbeat beside the poll is told of it first."""
    async with world(0, partitions=2) as (machine, client, http), connected(machine) as other:
        await join(http, "a")
        await join(other, "b")
        await poll(http, "a", timeout=0)
        await poll(other, "b", timeout=0)
        found, began = list[float](), trio.current_time()

        async def take() -> None:
            for _ in range(2):
                assert values(await poll(http, "a", timeout=60, limit=1)) == ["v"]
                found.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            await trio.sleep(1)
            await other.ask("POST", "/groups/g/leave", {"member_id": "b"})
            assert len((await beat(other, "a")).json()["assignment"]) == 2
            for partition in range(2):
                await client.publish("orders", b"v", partition=partition)
        assert max(found) < 2


async def test_a_member_without_a_partition_is_told_as_soon_as_it_has_one(autojump_clock: MockClock) -> None:
    async with world(1) as (machine, _, http), connected(machine) as other:
        await join(http, "a")
        await join(other, "b")
        began = trio.current_time()

        async def leave() -> None:
            await trio.sleep(10.5)
            assert (await http.ask("POST", "/groups/g/leave", {"member_id": "a"})).status == 204

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            assert values(await poll(other, "b", timeout=60)) == ["0"]
        assert trio.current_time() - began < 11


async def test_two_joins_of_a_member_at_the_same_time_leave_one_seat_that_works(autojump_clock: MockClock) -> None:
    async with world(5) as (machine, client, http), connected(machine) as other:
        machine.slow_disk(0.5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(join, http)
            nursery.start_soon(join, other)
        assert len(values(await poll(http))) == 5
        assert (await beat(other)).status == 200
        assert await members_of(client) == ["m"]


async def test_a_consumer_of_the_client_takes_the_place_of_a_member_over_http(autojump_clock: MockClock) -> None:
    async with world(1) as (_, client, http):
        await join(http)
        await poll(http)
        async with client.consumer("orders", group="g", member_id="m") as consumer:
            [message] = await consumer.receive(timeout=5)
            assert message.attempt == 2
            replaced = await http.ask("GET", polling(timeout=5))
            assert (replaced.status, replaced.json()["code"]) == (409, "fenced")
            await consumer.ack(message)


# Leaving


async def test_who_leaves_gives_back_what_it_holds_and_who_is_gone_is_told_so(autojump_clock: MockClock) -> None:
    async with world(4) as (machine, _, http), connected(machine) as other:
        await join(http, "a")
        held = receipts(await poll(http, "a", limit=3))
        assert (await http.ask("POST", "/groups/g/leave", {"member_id": "a"})).status == 204
        again = await http.ask("POST", "/groups/g/leave", {"member_id": "a"})
        assert (again.status, again.json()["code"]) == (404, "unknown_member")
        assert (await settle(http, "ack", held)).status == 409
        await join(other, "b")
        polled = await poll(other, "b")
        assert [each["attempt"] for each in polled["messages"]] == [1] * 4


async def test_a_member_that_leaves_ends_its_open_poll(autojump_clock: MockClock) -> None:
    async with world(0) as (machine, _, http), connected(machine) as other, trio.open_nursery() as nursery:
        await join(http)
        began = trio.current_time()

        async def leave() -> None:
            await trio.sleep(5)
            assert (await other.ask("POST", "/groups/g/leave", {"member_id": "m"})).status == 204

        nursery.start_soon(leave)
        answer = await http.ask("GET", polling(timeout=60))
        assert answer.status == 404 or answer.json()["messages"] == []
        assert trio.current_time() - began < 7


# Credit, and messages that come alone


async def test_an_ack_that_is_repeated_frees_nothing_twice(autojump_clock: MockClock) -> None:
    """Whoever holds something is given no message that has to come alone."""
    async with world(4) as (_, _, http):
        await join(http, settings={"max_deliveries": 2})
        assert values(await poll(http, visibility=1, limit=1)) == ["0"]
        held = receipts(await poll(http, limit=3))
        assert len(held) == 3
        await trio.sleep(1.1)
        for _ in range(3):
            assert (await settle(http, "ack", held[:1])).status == 200
        assert values(await poll(http, timeout=5)) == []
        await settle(http, "ack", held[1:])
        assert values(await poll(http, timeout=5)) == ["0"]


async def test_a_poll_of_a_busy_member_waits_for_its_acks_and_not_in_a_circle(autojump_clock: MockClock) -> None:
    async with world(2) as (machine, _, http), connected(machine) as other:
        await join(http, settings={"max_deliveries": 2, "retry_first": 0.1})
        await poll(http, visibility=1)
        await trio.sleep(1.1)
        alone = await poll(http, limit=1)
        assert [each["attempt"] for each in alone["messages"]] == [2]
        began = trio.current_time()

        async def ack() -> None:
            await trio.sleep(10)
            await settle(other, "ack", receipts(alone))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ack)
            polled = await poll(http, timeout=25)
        assert [each["attempt"] for each in polled["messages"]] == [2]
        assert 10 <= trio.current_time() - began < 10.1


async def test_who_was_expelled_still_holds_what_it_was_handed(autojump_clock: MockClock) -> None:
    async with world(0) as (_, client, http):
        async with client.producer("orders") as producer:
            await producer.send_many([b"v"] * (IN_FLIGHT_MAX + 1))
        await join(http, session_timeout=2)
        for _ in range(IN_FLIGHT_MAX // 1_000):
            await poll(http, limit=1_000, visibility=100)
        await trio.sleep(5)
        assert (await beat(http)).status == 404
        await join(http)
        assert (await http.ask("GET", polling(timeout=0))).status == 429


async def test_who_comes_anew_under_its_id_holds_nothing_and_gets_it_all_again(autojump_clock: MockClock) -> None:
    async with world(3) as (_, _, http):
        await join(http, settings={"max_deliveries": 2})
        assert len(values(await poll(http))) == 3
        await join(http, settings={"max_deliveries": 2})
        for _ in range(3):
            [message] = (await poll(http, timeout=5))["messages"]
            assert message["attempt"] == 2
            await settle(http, "ack", [message["receipt"]])


# Sizes


async def test_an_answer_has_at_most_so_many_bytes_and_at_least_one_message(autojump_clock: MockClock) -> None:
    for compression in ("none", "zstd"):
        async with world(0) as (_, client, http):
            await client.alter_topic("orders", config={"compression": compression})
            async with client.producer("orders") as producer:
                await producer.send_many([b"%04d" % number + b"x" * 996 for number in range(100)])
            await join(http)
            first = await poll(http, max_bytes=2_500)
            assert len(values(first)) == 2
            large = await poll(http, max_bytes=10)
            assert len(values(large)) == 1
            rest: list[str] = []
            while found := values(await poll(http, max_bytes=30_000, timeout=0)):
                assert len(found) <= 30
                rest += found
            whole = values(first) + values(large) + rest
            assert [int(value[:4]) for value in whole] == list(range(100))


# The end of the broker


async def test_an_open_poll_is_answered_at_once_when_the_broker_stops(autojump_clock: MockClock) -> None:
    async with world(0) as (machine, _, http):
        await join(http)
        began = trio.current_time()

        async def stop() -> None:
            await trio.sleep(5)
            await machine.stop()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            answer = await http.ask("GET", polling(timeout=60))
        assert (answer.status, answer.json()["messages"], answer.headers["connection"]) == (200, [], "close")
        assert trio.current_time() - began < 7
