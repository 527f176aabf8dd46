"""Dead letters over HTTP."""

import trio
from trio.testing import MockClock

import goqueue
from tests.http.world import HttpClient, connected


async def with_letters(http: HttpClient, count: int = 3) -> None:
    """A topic of which a group gave up all messages."""
    await http.ask("POST", "/topics", {"name": "orders", "partitions": 1})
    await http.ask("POST", "/topics/orders/messages", {"messages": [{"value": str(n)} for n in range(count)]})
    await http.ask("POST", "/groups/billing/join", {"topics": ["orders"], "member_id": "m"})
    polled = await http.ask("GET", "/groups/billing/poll?member_id=m")
    receipts = [each["receipt"] for each in polled.json()["messages"]]
    rejected = await http.ask("POST", "/messages/reject", {"receipts": receipts, "reason": "no such customer"})
    assert rejected.json() == {"settled": count, "stale": []}
    await trio.sleep(2)  # they are on their way


async def letters(http: HttpClient, query: str = "") -> list[int]:
    answer = await http.ask("GET", f"/topics/orders/dead-letters?{query}")
    assert answer.status == 200, answer.body
    return [each["offset"] for each in answer.json()["letters"]]


async def test_dead_letters_are_listed_with_their_story(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        await with_letters(http)
        [first, *_] = (await http.ask("GET", "/topics/orders/dead-letters")).json()["letters"]
        told = {name: first[name] for name in ("topic", "state", "group", "attempts", "reason", "origin_offset")}
        assert told == {
            "topic": "orders",
            "state": "waiting",
            "group": "billing",
            "attempts": 1,
            "reason": "no such customer",
            "origin_offset": 0,
        }
        assert (first["message"]["topic"], first["message"]["value"]) == ("orders.dlq", "0")


async def test_they_are_chosen_by_group_reason_and_state_and_come_by_pages(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        await with_letters(http)
        assert await letters(http, "group=billing&reason=customer&partition=0") == [0, 1, 2]
        assert await letters(http, "group=other") == []
        assert await letters(http, "reason=other") == []
        assert await letters(http, "state=redriven") == []
        page = (await http.ask("GET", "/topics/orders/dead-letters?limit=2")).json()
        assert [each["offset"] for each in page["letters"]] == [0, 1]
        assert await letters(http, f"limit=2&after={page['next']}") == [2]


async def test_they_are_redriven_and_dismissed(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        await with_letters(http)
        dry = await http.ask("POST", "/topics/orders/redrive", {"dry_run": True})
        assert dry.json()["redriven"] == 3
        assert await letters(http, "state=waiting") == [0, 1, 2]
        dismissed = await http.ask("POST", "/topics/orders/dismiss", {"offsets": [1], "note": "spam"})
        assert dismissed.json()["dismissed"] == 1
        redriven = await http.ask("POST", "/topics/orders/redrive", {"group": "billing"})
        assert redriven.json()["redriven"] == 2
        assert await letters(http, "state=waiting") == []
        assert await letters(http, "state=dismissed") == [1]
        counts = (await http.ask("GET", "/topics/orders/dead-letters/counts")).json()
        assert (counts["waiting"], counts["redriven"], counts["dismissed"]) == (0, 2, 1)
        again = await http.ask("GET", "/groups/billing/poll?member_id=m")
        assert [each["value"] for each in again.json()["messages"]] == ["0", "2"]


async def test_a_topic_without_dead_letters_has_none_and_one_that_is_missing_is_unknown(
    autojump_clock: MockClock,
) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        await http.ask("POST", "/topics", {"name": "orders"})
        assert await letters(http) == []
        for method, path in [
            ("GET", "/topics/other/dead-letters"),
            ("POST", "/topics/other/redrive"),
            ("POST", "/topics/other/dismiss"),
        ]:
            missing = await http.ask(method, path, {} if method == "POST" else None)
            assert (missing.status, missing.json()["code"]) == (404, "unknown_topic"), (method, path, missing.body)
