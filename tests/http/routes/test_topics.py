"""Topics over HTTP."""

from trio.testing import MockClock

import goqueue
from tests.http.world import ask, connected


async def test_a_topic_is_created_shown_changed_and_deleted(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as client:
        created = await client.ask("POST", "/topics", {"name": "orders", "partitions": 2})
        assert created.status == 201
        assert (await client.ask("GET", "/topics/orders")).json() == created.json()
        assert [each["partition"] for each in created.json()["partitions"]] == [0, 1]
        changed = await client.ask(
            "PATCH", "/topics/orders", {"config": {"max_message_bytes": 60_000}, "partitions": 3}
        )
        assert changed.status == 200, changed.body
        assert changed.json()["config"]["max_message_bytes"] == 60_000
        assert len((await client.ask("GET", "/v1/topics/orders/partitions")).json()["partitions"]) == 3
        assert (await client.ask("DELETE", "/topics/orders")).status == 204
        gone = await client.ask("GET", "/topics/orders")
        assert (gone.status, gone.json()["code"]) == (404, "unknown_topic")
        assert gone.json()["request_id"] == gone.headers["request-id"]


async def test_a_change_that_is_refused_changes_nothing(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as client:
        await client.ask("POST", "/topics", {"name": "orders", "partitions": 2})
        before = (await client.ask("GET", "/topics/orders")).json()
        for body in (
            {"config": {"max_message_bytes": 60_000}, "partitions": 1},
            {"config": {"max_message_bytes": "many"}, "partitions": 3},
        ):
            refused = await client.ask("PATCH", "/topics/orders", body)
            assert (refused.status, refused.json()["code"]) == (400, "invalid_config"), refused.body
            assert (await client.ask("GET", "/topics/orders")).json() == before
        gone = await client.ask("PATCH", "/topics/gone", {"partitions": 3})
        assert (gone.status, gone.json()["code"]) == (404, "unknown_topic")


async def test_a_repeat_with_the_same_key_is_answered_as_the_first_was(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine:
        first = await ask(machine, "POST", "/topics", {"name": "orders"}, idempotency_key="k")
        again = await ask(machine, "POST", "/topics", {"name": "orders"}, idempotency_key="k")
        other = await ask(machine, "POST", "/topics", {"name": "orders"})
        assert (first.status, again.status, again.json()) == (201, 201, first.json())
        assert (other.status, other.json()["code"]) == (409, "topic_exists")


async def test_topics_are_listed_by_pages(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as client:
        for name in "cab":
            await client.ask("POST", "/topics", {"name": name, "partitions": 1})
        page = (await client.ask("GET", "/topics?limit=2")).json()
        assert [each["name"] for each in page["topics"]] == ["a", "b"]
        rest = (await client.ask("GET", f"/topics?limit=2&after={page['next']}")).json()
        assert [each["name"] for each in rest["topics"]] == ["c"]
        assert "next" not in rest


async def test_what_is_wrong_is_named(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as client:
        for body, text in [
            ({"name": "orders", "partition": 2}, "'partition'"),
            ({"name": 5}, "name"),
            ({}, "name is missing"),
            (b"{", "not JSON"),
            ([], "object"),
            ({"name": "orders", "config": {str(number): 1 for number in range(1_000)}}, "at most 100"),
        ]:
            refused = await client.ask("POST", "/topics", body)
            assert (refused.status, refused.json()["code"]) == (400, "invalid_request"), refused.body
            assert text in refused.json()["message"]
        plain = await client.ask("POST", "/topics", b"{}", {"content-type": "text/plain"})
        assert plain.status == 415
        nowhere = await client.ask("GET", "/nowhere")
        assert nowhere.status == 404
        put = await client.ask("PUT", "/topics")
        assert (put.status, put.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
