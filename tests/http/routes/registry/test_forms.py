"""Whoever asks the registry is refused in the form that its clients know, whatever was wrong."""

import json
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.http.routing.reading import BRACKETS_MAX, JSON_SIZE_MAX
from goqueue.testing.network import SimulatedNetwork
from tests.http.routes.registry.world import CLOSED, KIND, OF_CONFLUENT, body, registry, text
from tests.http.routes.test_health import a_slow_start, probe
from tests.http.routes.test_limits import hold_a_body
from tests.http.world import ask

REGISTER, LOOK_UP = "/subjects/orders/versions", "/subjects/orders"


@pytest.mark.parametrize("root", ["", "/schemas"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/subjects/orders/nothing", 404),
        ("GET", "/subjects/orders/versions/1/schema/more", 404),
        ("GET", "/subjects//versions", 404),
        ("GET", "/subjects/", 404),
        ("GET", "/schemas/nothing", 404),
        ("GET", "/config/orders/more", 404),
        ("PATCH", "/subjects/orders", 405),
        ("PUT", "/subjects", 405),
        ("DELETE", "/schemas/ids/1", 405),
        ("GET", "/compatibility/subjects/orders/versions", 405),
        ("BREW", "/mode", 405),
        ("GET", "/subjects/%zz", 400),
        ("GET", "/subjects/%ff/versions", 400),
        ("GET", "/subjects?permanent=true", 400),
        ("GET", "/subjects?deleted=perhaps", 400),
        ("GET", "/subjects?deleted=true&deleted=true", 400),
        ("GET", "/subjects?offset=-1", 400),
        ("GET", "/subjects?offset=4294967296", 400),
        ("GET", "/subjects?limit=x", 400),
        ("DELETE", "/subjects/orders?permanant=true", 400),
        ("GET", "/schemas/types?x=1", 400),
        ("GET", "/schemas/ids/1?format=serialized", 422),
        ("GET", "/subjects/orders/versions/1?format=resolved", 422),
    ],
)
async def test_a_refusal_has_a_number_and_a_sentence(
    root: str, method: str, path: str, status: int, autojump_clock: MockClock
) -> None:
    async with registry(root) as client:
        await client.register("orders", CLOSED)
        assert await client.refused(method, path) == (status, status)


async def test_a_method_that_there_is_not_is_told_which_there_are(autojump_clock: MockClock) -> None:
    async with registry() as client:
        refused = await client.ask("PATCH", "/subjects/orders")
        assert refused.headers["allow"] == "DELETE, OPTIONS, POST"
        options = await client.http.ask("OPTIONS", "/subjects/orders")
        assert (options.status, options.headers["allow"]) == (204, "DELETE, OPTIONS, POST")


async def test_the_registry_has_no_version_before_it(autojump_clock: MockClock) -> None:
    async with registry() as client:
        refused = await client.http.ask("GET", "/v1/subjects")
        assert (refused.status, refused.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", [REGISTER, LOOK_UP, "/compatibility/subjects/orders/versions"])
@pytest.mark.parametrize(
    ("given", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"", {}, 400),
        (b"\xff", {}, 400),
        (b'{"schema": "\\ud800"}', {}, 400),
        ([], {}, 400),
        ("text", {}, 400),
        ({}, {}, 400),
        ({"schema": None}, {}, 400),
        ({"schema": CLOSED}, {}, 400),
        ({"schema": 5}, {}, 400),
        ({"schema": "{}", "schemaType": 5}, {}, 400),
        ({"schema": "{}", "references": {}}, {}, 400),
        ({"schema": "{}", "references": [{"name": "x"}]}, {}, 400),
        ({"schema": "{}", "references": [{"name": "x", "subject": "s", "version": "1"}]}, {}, 400),
        ({"schema": "{}", "references": [{"name": "x", "subject": "s", "version": 0}]}, {}, 400),
        ({"schema": "{}", "metadata": []}, {}, 400),
        ({"schema": "{}", "ruleSet": "x"}, {}, 400),
        ({"schema": "{}", "schemaTagsToAdd": [{"tags": ["x"]}]}, {}, 422),
        ({"schema": "{}", "shcemaType": "JSON"}, {}, 422),
        ({"schema": "{}"}, {"content-type": "text/plain"}, 415),
        ({"schema": "{}"}, {"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"schema": "{}"}, {"content-encoding": "gzip"}, 415),
        (b'{"schema": "' + b" " * JSON_SIZE_MAX + b'"}', {}, 413),
        (b'{"schema": "{}", "metadata": {"tags": ' + b"[" * (BRACKETS_MAX + 1), {}, 413),
    ],
)
async def test_a_body_that_cannot_be_is_refused(
    path: str, given: Any, headers: dict[str, str], status: int, autojump_clock: MockClock
) -> None:
    async with registry() as client:
        refused = await client.ask("POST", path, given, {**OF_CONFLUENT, **headers})
        assert (refused.status, refused.json()["error_code"]) == (status, status), refused.body


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "no JSON",
        "{",
        "NaN",
        '{"type": 5}',
        '{"type": "obejct"}',
        '{"required": "id"}',
        '{"pattern": "("}',
        '{"pattern": "(?=x)y"}',
        '{"$schema": "http://example.com/my-own"}',
        '{"$ref": "http://127.0.0.1:1/schema.json"}',
        '{"$ref": "file:///etc/passwd"}',
        '{"a": 1, "a": 2}',
        '{"title": "\\ud800"}',
        "[" * 100_000,
        '{"not":' * 1_000 + "{}" + "}" * 1_000,
        json.dumps({"enum": list(range(30_000))}),
    ],
    ids=lambda schema: schema[:20],
)
async def test_a_schema_that_cannot_be_is_42201(schema: str, autojump_clock: MockClock) -> None:
    async with registry() as client:
        if schema.count("[") > BRACKETS_MAX:
            assert await client.refused("POST", REGISTER, body(schema)) == (413, 413)
            return
        for path in (REGISTER, "/compatibility/subjects/orders/versions"):
            assert await client.refused("POST", path, body(schema)) == (422, 42201), path
        assert await client.good("GET", "/subjects") == []


async def test_a_schema_above_a_mebibyte_is_42209(autojump_clock: MockClock) -> None:
    large = {"description": "x" * 1024 * 1024}
    async with registry() as client:
        assert await client.refused("POST", REGISTER, body(large)) == (422, 42209)


@pytest.mark.parametrize("name", ["x" * 256, "x" * 2_000, "%00", "a%0Ab", "%7F", "%C2%85"])
async def test_a_name_that_no_subject_may_have_is_42208(name: str, autojump_clock: MockClock) -> None:
    async with registry() as client:
        assert await client.refused("POST", f"/subjects/{name}/versions", body(CLOSED)) == (422, 42208)
        assert await client.refused("PUT", f"/config/{name}", {"compatibility": "FULL"}) == (422, 42208)
        assert await client.refused("PUT", f"/mode/{name}", {"mode": "READONLY"}) == (422, 42208)
        assert await client.refused("GET", f"/subjects/{name}/versions") == (422, 42208)


async def test_many_references_are_too_many(autojump_clock: MockClock) -> None:
    references = [{"name": f"r{number}", "subject": "s", "version": 1} for number in range(70)]
    async with registry() as client:
        assert await client.refused("POST", REGISTER, body("{}", references=references)) == (422, 42201)
        many = [{**references[0], "name": f"r{number}"} for number in range(300)]
        status, _ = await client.refused("POST", REGISTER, body("{}", references=many))
        assert status in (400, 422)


async def test_a_foreign_host_is_refused_in_the_form_of_the_registry(autojump_clock: MockClock) -> None:
    async with registry() as client:
        refused = await client.ask("GET", "/subjects", None, {"host": "evil.example"})
        assert (refused.status, refused.json()["error_code"]) == (403, 403)


async def test_without_room_for_a_body_the_registry_says_so(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client:
        await client.create_topic("orders", partitions=1)
        async with trio.open_nursery() as nursery:
            for number in range(17):
                nursery.start_soon(hold_a_body, machine, number)
                await trio.sleep(0.1)  # so that the last one is refused, and no other
            refused = await ask(machine, "POST", REGISTER, body(CLOSED))
            nursery.cancel_scope.cancel()
    assert (refused.status, refused.json()["error_code"], refused.headers["retry-after"]) == (503, 503, "1")


async def test_while_the_broker_starts_the_registry_says_so(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    async with a_slow_start(network):
        for path in ("/subjects", "/schemas/subjects", "/config", "/"):
            refused = await probe(network, path)
            assert (refused.status, refused.headers["content-type"]) == (503, KIND), path
            assert refused.json()["error_code"] == 503


async def test_a_schema_is_never_fetched_and_never_shown_in_part(autojump_clock: MockClock) -> None:
    """What is answered is the text that was registered, to the letter."""
    chance, letters = Random(7), '{}[]", \\:ab1é💡\n'
    async with registry() as client:
        for number in range(20):
            comment = "".join(chance.choices(letters, k=200))
            schema = json.dumps({"$comment": comment, "maxProperties": number}, ensure_ascii=number % 2 == 0)
            made = await client.register(f"s{number}", schema)
            assert made["schema"] == text(schema)
            answered = await client.ask("GET", f"/schemas/ids/{made['id']}/schema")
            assert answered.body.decode() == schema
