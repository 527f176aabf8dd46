"""Delayed messages over HTTP."""

from typing import Any

from trio.testing import MockClock

import goqueue
from tests.http.world import HttpClient, connected


async def pending(http: HttpClient, query: str = "") -> list[dict[str, Any]]:
    answer = await http.ask("GET", f"/topics/orders/delayed?{query}")
    assert answer.status == 200, answer.body
    return list(answer.json()["delayed"])


async def test_a_delayed_message_is_listed_moved_and_delivered_early(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        message = {"value": "v", "key": "k", "deliverAt": "2999-01-01T00:00:00Z", "messageId": "mine"}
        published = await http.ask("POST", "/topics/orders/messages", {"messages": [message]})
        assert published.json() == {"results": [{"partition": 0, "offset": 0}]}
        [found] = await pending(http)
        assert (found["state"], found["key"], found["message_id"]) == ("pending", "k", "mine")
        assert await pending(http, "message_id=mine&key=k") == [found]
        assert await pending(http, "message_id=other&key=k") == []
        assert (await http.ask("GET", "/topics/orders/delayed/0/0")).json() == found
        moved = await http.ask("PATCH", "/topics/orders/delayed/0/0", {"deliverAt": found["due"] + 60})
        assert moved.json() == {"rescheduled": True}
        assert (await pending(http))[0]["due"] == found["due"] + 60
        delivered = await http.ask("POST", "/topics/orders/delayed/0/0/deliver")
        assert delivered.json() == {"delivered": True}
        again = await http.ask("POST", "/topics/orders/delayed/0/0/deliver", {})
        assert again.json() == {"delivered": False}
        assert [each.value async for each in client.read("orders", end="latest")] == [b"v"]
        [finished] = await pending(http, "state=finished")
        assert finished["offset"] == 0 < finished["delivered_offset"]


async def test_a_cancelled_message_is_never_delivered(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"v", delay=60)
        cancelled = await http.ask("DELETE", "/topics/orders/delayed/0/0")
        assert cancelled.json() == {"cancelled": True}
        assert await pending(http) == []
        late = await http.ask("PATCH", "/topics/orders/delayed/0/0", {"delay": 1})
        assert late.json() == {"rescheduled": False}


async def test_delayed_messages_come_by_pages(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        for _ in range(5):
            await client.publish("orders", b"v", delay=60)
        first = (await http.ask("GET", "/topics/orders/delayed?limit=3")).json()
        assert ([each["offset"] for each in first["delayed"]], first["pending"]) == ([0, 1, 2], 5)
        rest = (await http.ask("GET", f"/topics/orders/delayed?limit=3&after={first['next']}")).json()
        assert [each["offset"] for each in rest["delayed"]] == [3, 4]


async def test_what_is_no_delayed_message_is_not_found(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"v")
        for method, path, body, status in [
            ("GET", "/topics/orders/delayed/0/0", None, 404),
            ("GET", "/topics/orders/delayed/7/0", None, 404),
            ("GET", "/topics/other/delayed/0/0", None, 404),
            ("GET", "/topics/orders/delayed/x/0", None, 400),
            ("GET", "/topics/orders/delayed?after=x", None, 400),
            ("PATCH", "/topics/orders/delayed/0/0", {}, 400),
            ("PATCH", "/topics/orders/delayed/0/0", {"delay": 1, "deliver_at": 2}, 400),
            ("PATCH", "/topics/orders/delayed/0/0", {"delay": -1}, 400),
            ("POST", "/topics/orders/delayed/0/0/deliver", {"now": True}, 400),
        ]:
            answer = await http.ask(method, path, body)
            assert answer.status == status, (method, path, answer.body)
