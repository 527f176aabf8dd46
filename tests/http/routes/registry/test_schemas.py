"""Schemas by id and guid, and what there is of them."""

from typing import Any

import pytest
from trio.testing import MockClock

from goqueue.actors.front import schemas as front
from tests.http.routes.registry.world import CLOSED, KIND, WIDER, registry, text


@pytest.mark.parametrize("root", ["", "/schemas"])
async def test_a_schema_is_found_by_its_id_and_its_guid(root: str, autojump_clock: MockClock) -> None:
    async with registry(root) as client:
        made = await client.register("orders", CLOSED)
        await client.register("refunds", CLOSED)
        alone = {name: value for name, value in made.items() if name not in ("subject", "version")}
        assert await client.good("GET", "/schemas/ids/1") == alone
        assert await client.good("GET", "/schemas/ids/1?fetchMaxId=false&format=") == alone
        assert (await client.good("GET", "/schemas/ids/1?subject=refunds"))["subject"] == "refunds"
        assert (await client.good("GET", "/schemas/ids/1?subject=nobody"))["schema"] == text(CLOSED)
        assert await client.good("GET", "/schemas/ids/1/schema?subject=nobody") == CLOSED
        assert await client.good("GET", f"/schemas/guids/{made['guid']}") == alone
        assert await client.good("GET", f"/schemas/guids/{made['guid']}/ids") == [{"context": ".", "id": 1}]
        assert await client.good("GET", "/schemas/ids/1/subjects?offset=0&limit=-1") == ["orders", "refunds"]
        assert await client.good("GET", "/schemas/ids/1/versions?offset=1&limit=1&subject=orders") == [
            {"subject": "refunds", "version": 1}
        ]
        await client.good("DELETE", "/subjects/orders")
        assert await client.good("GET", "/schemas/ids/1/subjects") == ["refunds"]
        assert await client.good("GET", "/schemas/ids/1/subjects?deleted=True") == ["orders", "refunds"]
        assert [each["subject"] for each in await client.good("GET", "/schemas/ids/1/versions")] == ["refunds"]


@pytest.mark.parametrize("number", ["2", "0", "-1", "abc", "2147483648", "99999999999999999999", "1e0", "%00"])
async def test_an_id_that_no_schema_has_is_40403(number: str, autojump_clock: MockClock) -> None:
    async with registry() as client:
        await client.register("orders", CLOSED)
        for path in ("", "/schema", "/subjects", "/versions"):
            assert await client.refused("GET", f"/schemas/ids/{number}{path}") == (404, 40403), path


@pytest.mark.parametrize("guid", ["7f3c1e52-0f3a-8a11-9d2b-3c0a5f1e2d4b", "nonsense", "%00", "0" * 400])
async def test_a_guid_that_no_schema_has_is_40403(guid: str, autojump_clock: MockClock) -> None:
    async with registry() as client:
        for path in ("", "/ids"):
            assert await client.refused("GET", f"/schemas/guids/{guid}{path}") == (404, 40403)


async def test_the_schemas_are_listed_by_subject_and_number(autojump_clock: MockClock) -> None:
    async with registry() as client:
        for name, schema in [("b", CLOSED), ("a", CLOSED), ("a", WIDER), ("c", CLOSED)]:
            await client.register(name, schema)
        await client.good("DELETE", "/subjects/c")
        for query, places in [
            ("", ["a1", "a2", "b1"]),
            ("?latestOnly=true", ["a2", "b1"]),
            ("?deleted=true", ["a1", "a2", "b1", "c1"]),
            ("?subjectPrefix=a", ["a1", "a2"]),
            ("?offset=1&limit=1", ["a2"]),
            ("?limit=0", []),
        ]:
            found = await client.good("GET", f"/schemas{query}")
            assert [f"{each['subject']}{each['version']}" for each in found] == places, query


async def test_schemas_beyond_one_page_come_in_pieces(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an answer holds at once is bounded, however many schemas there are."""
    monkeypatch.setattr(front, "PAGE_SIZE", 100)
    async with registry() as client:
        for number in range(7):
            await client.register(f"s{number}", {"description": "x" * 90, "maxProperties": number})
        whole = await client.ask("GET", "/schemas")
        assert whole.headers["transfer-encoding"] == "chunked"
        assert [each["subject"] for each in whole.json()] == [f"s{number}" for number in range(7)]
        for limit in (1, 2, 6, 7, 8):
            some = await client.good("GET", f"/schemas?offset=1&limit={limit}")
            assert [each["subject"] for each in some] == [f"s{number}" for number in range(1, 7)][:limit]


async def test_clients_look_around_before_they_begin(autojump_clock: MockClock) -> None:
    async with registry() as client:
        expected: dict[str, Any] = {
            "/": {},
            "/schemas/": {},
            "/schemas/types": ["JSON", "AVRO"],
            "/contexts": ["."],
            "/contexts?offset=0&limit=-1": ["."],
            "/contexts?offset=1": [],
            "/schemas": [],
            "/subjects": [],
        }
        for path, answer in expected.items():
            assert await client.good("GET", path) == answer, path
            head = await client.http.ask("HEAD", path)
            assert (head.status, head.body, head.headers["content-type"]) == (200, b"", KIND)


async def test_associations_are_404_in_the_form_that_clients_know(autojump_clock: MockClock) -> None:
    """Confluent's client asks for them first, and goes on by the name of the topic."""
    path = "/associations/resources/-/orders?resourceType=topic&associationType=value&associationType=key"
    async with registry() as client:
        for asked in (path, f"/schemas{path}", "/dek-registry/v1/keks", "/exporters"):
            assert await client.refused("GET", asked) == (404, 404), asked


async def test_what_there_is_is_counted(autojump_clock: MockClock) -> None:
    async with registry() as client:
        await client.register("a", CLOSED)
        await client.register("b", CLOSED)
        await client.register("b", WIDER)
        await client.good("DELETE", "/subjects/a")
        counted = (await client.http.ask("GET", "/schemas/stats")).json()
        assert counted["schemas.subjects"] == 1
        assert counted["schemas.versions"] == 2
        assert counted["schemas.deleted_versions"] == 1
        assert counted["schemas"] == 2
        assert counted["schemas.size"] == len(text(CLOSED)) + len(text(WIDER))
        assert (await client.http.ask("GET", "/v1/schemas/stats")).json() == counted
