"""Whether a schema could be registered."""

import pytest
from trio.testing import MockClock

from tests.http.routes.registry.world import CLOSED, STRICTER, WIDER, body, registry

PATH = "/compatibility/subjects/orders/versions"


@pytest.mark.parametrize("root", ["", "/schemas"])
async def test_a_schema_is_compared_and_nothing_is_registered(root: str, autojump_clock: MockClock) -> None:
    async with registry(root) as client:
        await client.register("orders", CLOSED)
        for path in (PATH, f"{PATH}/latest", f"{PATH}/1"):
            query = "?normalize=False&verbose=False"
            assert await client.good("POST", path + query, body(WIDER)) == {"is_compatible": True}
            assert await client.good("POST", path + query, body(STRICTER)) == {"is_compatible": False}
        assert await client.good("GET", "/subjects/orders/versions") == [1]


async def test_a_verbose_check_says_what_is_incompatible_where_and_what_would_help(
    autojump_clock: MockClock,
) -> None:
    async with registry() as client:
        await client.register("orders", CLOSED)
        found = await client.good("POST", f"{PATH}?verbose=True", body(STRICTER))
        assert not found["is_compatible"]
        assert any("note" in each and "(version 1)" in each for each in found["messages"]), found
        assert await client.good("POST", f"{PATH}?verbose=true", body(WIDER)) == {
            "is_compatible": True,
            "messages": [],
        }


async def test_the_first_version_is_always_compatible(autojump_clock: MockClock) -> None:
    async with registry() as client:
        assert await client.good("POST", PATH, body(CLOSED)) == {"is_compatible": True}


async def test_a_check_with_what_is_not_there_is_404_and_of_no_schema_422(autojump_clock: MockClock) -> None:
    async with registry() as client:
        assert await client.refused("POST", f"{PATH}/latest", body(CLOSED)) == (404, 40401)
        await client.register("orders", CLOSED)
        assert await client.refused("POST", f"{PATH}/2", body(CLOSED)) == (404, 40402)
        assert await client.refused("POST", PATH, body({"type": "no such type"})) == (422, 42201)
        assert await client.refused("POST", PATH, body("{")) == (422, 42201)
