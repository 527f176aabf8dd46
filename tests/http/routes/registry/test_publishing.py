"""Messages that do not fit the schema of their topic, published over HTTP."""

import json
from typing import Any

import pytest
from trio.testing import MockClock

from tests.http.routes.registry.world import CLOSED, RegistryClient, registry
from tests.http.world import Answered

PATH = "/topics/orders/messages"
GOOD, BAD = {"value_json": {"id": 7}}, {"value_json": {"id": "a secret"}}
OCTETS, NDJSON = {"content-type": "application/octet-stream"}, {"content-type": "application/x-ndjson"}


async def prepare(client: RegistryClient) -> None:
    """A topic of one partition whose values have a schema."""
    await client.http.ask("POST", "/topics", {"name": "orders", "partitions": 1})
    await client.register("orders-value", CLOSED)


async def read_all(client: RegistryClient) -> list[Any]:
    found = await client.http.ask("GET", f"{PATH}?encoding=json")
    return [each["value_json"] for each in found.json()["messages"]]


def check_refusal(told: dict[str, Any]) -> None:
    assert told["code"] == "schema_refused"
    assert not told["retryable"]
    assert "id" in told["message"]
    assert "orders-value" in told["message"]
    assert "secret" not in json.dumps(told), "the value is nobody's business"


async def test_what_does_not_fit_is_refused_one_by_one_and_the_rest_is_published(autojump_clock: MockClock) -> None:
    """G16, and 207 where some were published."""
    async with registry() as client:
        await prepare(client)
        some = await client.http.ask("POST", PATH, {"messages": [GOOD, BAD, GOOD, BAD]})
        assert some.status == 207
        results = some.json()["results"]
        assert [each.get("offset") for each in results] == [0, None, 1, None]
        check_refusal(results[1])
        check_refusal(results[3])
        assert await read_all(client) == [{"id": 7}] * 2


async def test_when_nothing_fits_the_answer_is_422(autojump_clock: MockClock) -> None:
    async with registry() as client:
        await prepare(client)
        none = await client.http.ask("POST", PATH, {"messages": [BAD, {"value": "no JSON"}, {"value": ""}]})
        assert none.status == 422
        assert [each["code"] for each in none.json()["results"]] == ["schema_refused"] * 3
        check_refusal(none.json()["results"][0])
        assert await read_all(client) == []


@pytest.mark.parametrize("more", [{}, {"delay": 60}, {"priority": "high"}, {"key": "k"}, {"message_id": "m"}])
async def test_no_way_in_goes_around_the_schema(more: dict[str, Any], autojump_clock: MockClock) -> None:
    async with registry() as client:
        await prepare(client)
        refused = await client.http.ask("POST", PATH, {"messages": [{**BAD, **more}]})
        assert refused.status == 422
        check_refusal(refused.json()["results"][0])
        query = "&".join(f"{name}={value}" for name, value in more.items())
        alone = await client.http.ask("POST", f"{PATH}?{query}", json.dumps(BAD["value_json"]).encode(), OCTETS)
        assert alone.status == 422
        check_refusal(alone.json()["results"][0])
        lines = await client.http.ask("POST", PATH, json.dumps({**BAD, **more}).encode(), NDJSON)
        assert lines.status == 422
        check_refusal(only_failure(lines))
        assert await read_all(client) == []


def only_failure(answered: Answered) -> dict[str, Any]:
    [report] = [json.loads(line) for line in answered.body.splitlines()]
    [failure] = report["failed"]
    assert isinstance(failure, dict)
    return failure


async def test_a_tombstone_and_a_topic_that_says_off_are_held_to_nothing(autojump_clock: MockClock) -> None:
    async with registry() as client:
        await prepare(client)
        tombstone = await client.http.ask("POST", PATH, {"messages": [{"key": "k", "value": None}]})
        assert tombstone.status == 200, tombstone.body
        await client.http.ask("PATCH", "/topics/orders", {"config": {"schema_validation": "off"}})
        assert (await client.http.ask("POST", PATH, {"messages": [BAD]})).status == 200
        await client.http.ask("PATCH", "/topics/orders", {"config": {"schema_validation": "on"}})
        assert (await client.http.ask("POST", PATH, {"messages": [BAD]})).status == 422
        await client.good("DELETE", "/subjects/orders-value")
        assert (await client.http.ask("POST", PATH, {"messages": [BAD]})).status == 200


async def test_a_schema_counts_from_the_answer_to_its_registration_on(autojump_clock: MockClock) -> None:
    async with registry() as client:
        await client.http.ask("POST", "/topics", {"name": "orders", "partitions": 1})
        assert (await client.http.ask("POST", PATH, {"messages": [BAD]})).status == 200
        await client.register("orders", CLOSED)
        assert (await client.http.ask("POST", PATH, {"messages": [BAD]})).status == 422
