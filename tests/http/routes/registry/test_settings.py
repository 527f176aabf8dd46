"""Levels of compatibility and modes, of the registry and of a subject."""

import pytest
from trio.testing import MockClock

from tests.http.routes.registry.world import CLOSED, STRICTER, WIDER, body, registry

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")


@pytest.mark.parametrize("root", ["", "/schemas"])
async def test_a_level_is_set_shown_and_taken_back(root: str, autojump_clock: MockClock) -> None:
    async with registry(root) as client:
        assert await client.good("GET", "/config") == {"compatibilityLevel": "BACKWARD", "normalize": False}
        for level in LEVELS:
            assert await client.good("PUT", "/config/orders", {"compatibility": level}) == {"compatibility": level}
            assert (await client.good("GET", "/config/orders"))["compatibilityLevel"] == level
        assert await client.good("PUT", "/config", {"compatibility": "full"}) == {"compatibility": "FULL"}
        assert await client.good("DELETE", "/config/orders") == {"compatibilityLevel": "FULL_TRANSITIVE"}
        assert await client.refused("GET", "/config/orders") == (404, 40408)
        found = await client.good("GET", "/config/orders?defaultToGlobal=True")
        assert found["compatibilityLevel"] == "FULL"
        assert (await client.good("DELETE", "/config"))["compatibilityLevel"] == "FULL"
        assert (await client.good("GET", "/config"))["compatibilityLevel"] == "BACKWARD"
        assert await client.refused("DELETE", "/config/orders") == (404, 40408)


async def test_the_level_decides_what_may_follow(autojump_clock: MockClock) -> None:
    async with registry() as client:
        await client.register("orders", CLOSED)
        await client.good("PUT", "/config/orders", {"compatibility": "FORWARD"})
        assert await client.refused("POST", "/subjects/orders/versions", body(WIDER)) == (409, 409)
        await client.good("PUT", "/config/orders", {"compatibility": "NONE"})
        assert (await client.register("orders", STRICTER))["version"] == 2


async def test_whether_order_matters_is_a_setting_too(autojump_clock: MockClock) -> None:
    async with registry() as client:
        assert await client.good("PUT", "/config/orders", {"normalize": True}) == {"normalize": True}
        found = await client.good("GET", "/config/orders")
        assert found == {"compatibilityLevel": "BACKWARD", "normalize": True}
        assert await client.good("DELETE", "/config/orders") == {"normalize": True}


async def test_what_would_be_ignored_is_refused(autojump_clock: MockClock) -> None:
    async with registry() as client:
        for given, expected in [
            ({"compatibility": "SIDEWAYS"}, (422, 42203)),
            ({"compatibility": ""}, (422, 42203)),
            ({}, (422, 42203)),
            ({"compatibility": None}, (422, 42203)),
            ({"compatibility": "FULL", "compatibilityLevel": "NONE"}, (422, 42203)),
            ({"compatibility": "FULL", "compatibilityGroup": "major"}, (422, 422)),
            ({"compatibility": "FULL", "overrideRuleSet": {}}, (422, 422)),
            ({"compatibility": 5}, (400, 400)),
            ({"normalize": "yes"}, (400, 400)),
            ([], (400, 400)),
        ]:
            assert await client.refused("PUT", "/config/orders", given) == expected, given
        nulls = {"compatibility": "FULL", "compatibilityGroup": None, "defaultMetadata": None}
        assert await client.good("PUT", "/config/orders", nulls) == {"compatibility": "FULL"}
        both = {"compatibilityLevel": "NONE"}
        assert await client.good("PUT", "/config/orders", both) == {"compatibility": "NONE"}


@pytest.mark.parametrize("root", ["", "/schemas"])
async def test_a_mode_is_set_shown_and_taken_back(root: str, autojump_clock: MockClock) -> None:
    async with registry(root) as client:
        assert await client.good("GET", "/mode") == {"mode": "READWRITE"}
        assert await client.refused("GET", "/mode/orders") == (404, 40409)
        assert await client.good("GET", "/mode/orders?defaultToGlobal=true") == {"mode": "READWRITE"}
        assert await client.good("PUT", "/mode/orders?force=False", {"mode": "readonly"}) == {"mode": "READONLY"}
        assert await client.good("GET", "/mode/orders") == {"mode": "READONLY"}
        assert await client.refused("PUT", "/mode/orders", {"mode": "SIDEWAYS"}) == (422, 42204)
        assert await client.good("DELETE", "/mode/orders") == {"mode": "READONLY"}
        assert await client.refused("DELETE", "/mode/orders") == (404, 40409)
        assert await client.good("PUT", "/mode", {"mode": "READONLY"}) == {"mode": "READONLY"}
        assert await client.good("DELETE", "/mode") == {"mode": "READONLY"}
        assert await client.good("GET", "/mode") == {"mode": "READWRITE"}


async def test_import_is_for_a_subject_without_versions_unless_forced(autojump_clock: MockClock) -> None:
    async with registry() as client:
        await client.register("orders", CLOSED)
        assert await client.refused("PUT", "/mode/orders", {"mode": "IMPORT"}) == (422, 42205)
        assert await client.good("PUT", "/mode/orders?force=True", {"mode": "IMPORT"}) == {"mode": "IMPORT"}


async def test_a_put_may_have_any_content_type_and_a_delete_none(autojump_clock: MockClock) -> None:
    """Pages of other sites cannot send them without being asked."""
    async with registry() as client:
        for kind in ("application/json", "application/vnd.schemaregistry+json", "text/plain"):
            put = await client.ask("PUT", "/config", {"compatibility": "FULL"}, {"content-type": kind})
            assert put.status == 200, put.body
        assert (await client.ask("DELETE", "/config", None, {})).status == 200
