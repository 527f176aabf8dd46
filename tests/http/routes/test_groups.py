"""Groups over HTTP, for operators; and counters."""

from trio.testing import MockClock

import goqueue
from tests.http.world import HttpClient, connected


async def with_a_group(http: HttpClient) -> None:
    await http.ask("POST", "/topics", {"name": "orders", "partitions": 2})
    await http.ask(
        "POST", "/topics/orders/messages", {"messages": [{"value": str(n), "partition": 0} for n in range(5)]}
    )
    joined = await http.ask("POST", "/groups/billing/join", {"topics": ["orders"], "member_id": "m"})
    assert joined.status == 200, joined.body


async def test_a_group_is_listed_shown_changed_and_deleted(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        await with_a_group(http)
        listed = (await http.ask("GET", "/groups")).json()
        assert listed == {
            "groups": [{"name": "billing", "state": "stable", "members": 1, "lag": 5, "in_flight": 0}]
        }
        shown = (await http.ask("GET", "/groups/billing")).json()
        assert [each["member_id"] for each in shown["members"]] == ["m"]
        assert [(each["partition"], each["lag"]) for each in shown["partitions"]] == [(0, 5), (1, 0)]
        assigned = (await http.ask("GET", "/groups/billing/assignment")).json()
        assert assigned["members"] == {"m": {"orders": [0, 1]}}
        busy = await http.ask("PATCH", "/groups/billing", {"settings": {"max_deliveries": 7}})
        assert (busy.status, busy.json()["code"]) == (409, "group_conflict")
        forced = await http.ask("PATCH", "/groups/billing", {"settings": {"max_deliveries": 7}, "force": True})
        assert forced.json()["settings"]["max_deliveries"] == 7
        held = await http.ask("DELETE", "/groups/billing")
        assert (held.status, held.json()["code"]) == (409, "group_conflict")
        await http.ask("POST", "/groups/billing/leave", {"member_id": "m"})
        assert (await http.ask("DELETE", "/groups/billing")).status == 204
        gone = await http.ask("GET", "/groups/billing")
        assert (gone.status, gone.json()["code"]) == (404, "unknown_group")


async def test_offsets_are_shown_committed_from_outside_and_reset(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        await with_a_group(http)
        await http.ask("POST", "/groups/billing/leave", {"member_id": "m"})
        dry = await http.ask(
            "POST", "/groups/billing/reset", {"start": 3, "topic": "orders", "partition": 0, "dry_run": True}
        )
        assert len(dry.json()["partitions"]) == 1
        assert (await http.ask("GET", "/groups/billing/offsets")).json()["offsets"]["orders"]["0"] == 0
        done = await http.ask("POST", "/groups/billing/reset", {"start": "latest"})
        assert done.status == 200, done.body
        assert (await http.ask("GET", "/groups/billing/offsets")).json()["offsets"]["orders"]["0"] == 5
        for start in ("", "soon", "last:x", "offset:1", -1, 1.5, None):
            refused = await http.ask("POST", "/groups/billing/reset", {"start": start})
            assert refused.status == 400, (start, refused.body)


async def test_why_says_a_sentence(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        await with_a_group(http)
        told = (await http.ask("GET", "/why/groups/billing?member=m")).json()
        assert told["why"].endswith(".") or told["why"]
        nobody = await http.ask("GET", "/why/groups/billing?member=nobody")
        assert nobody.status == 404
        unknown = await http.ask("GET", "/why/groups/other")
        assert (unknown.status, unknown.json()["code"]) == (404, "unknown_group")


async def test_a_misspelt_setting_is_refused_at_a_join_and_named(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        await http.ask("POST", "/topics", {"name": "orders"})
        body = {"topics": ["orders"], "settings": {"max_delivery": 3}}
        refused = await http.ask("POST", "/groups/billing/join", body)
        assert refused.status == 400
        assert "did you mean 'max_deliveries'?" in refused.json()["message"]


async def test_counters_are_shown_whole_and_in_slices(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        await with_a_group(http)
        everything = (await http.ask("GET", "/stats")).json()
        assert everything["requests"] > 0
        for path in ("reliability", "delay", "priority", "rebalance"):
            part = (await http.ask("GET", f"/{path}/stats")).json()
            assert part
            assert part.keys() < everything.keys(), path


async def test_the_gateway_says_what_it_is(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        assert (await http.ask("GET", "/")).json() == {}
        told = (await http.ask("GET", "/version")).json()
        assert (told["node"], told["protocol"]) == ("node-1", [1, 1])
        assert (await http.ask("GET", "/openapi.json")).json()["openapi"] == "3.1.0"
        docs = await http.ask("GET", "/docs")
        assert docs.headers["content-type"] == "text/html; charset=utf-8"
        assert b"script" not in docs.body
        assert b"http://" not in docs.body.replace(b"$URL", b"")
        assert "default-src 'none'" in docs.headers["content-security-policy"]
