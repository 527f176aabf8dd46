"""How a group shares out its partitions, as its first member has asked for."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

PARTITIONS = 4


async def owned(client: goqueue.Client) -> dict[str, list[int]]:
    """The partitions of each member, when all have settled down."""
    await trio.sleep(10)
    shares: dict[str, list[int]] = {}
    for place in (await client.group("billing")).partitions:
        shares.setdefault(str(place.member_id), []).append(place.partition)
    return shares


@pytest.mark.parametrize(
    ("assignor", "shares"),
    [("range", {"ann": [0, 1], "bob": [2, 3]}), ("roundrobin", {"ann": [0, 2], "bob": [1, 3]})],
)
async def test_partitions_are_shared_out_as_the_first_member_says(
    assignor: str, shares: dict[str, list[int]], machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        async with (
            client.consumer("orders", group="billing", assignor=assignor, member_id="ann"),
            client.consumer("orders", group="billing", member_id="bob"),
        ):
            assert await owned(client) == shares


@pytest.mark.parametrize(("rebalance", "count"), [("cooperative", 2), ("eager", PARTITIONS)])
async def test_a_member_lets_go_of_what_moves_or_of_everything(
    rebalance: str, count: int, machine: Machine, autojump_clock: MockClock
) -> None:
    """G10, unless it is eager"""
    revoked: list[tuple[str, int]] = []
    options: dict[str, Any] = {"group": "billing", "mode": "stream", "rebalance": rebalance}
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        async with client.consumer("orders", member_id="ann", on_revoked=revoked.extend, **options) as ann:
            assert await ann.receive(timeout=1) == []
            async with client.consumer("orders", member_id="bob", **options) as bob:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ann.receive, 1, 20)
                    nursery.start_soon(bob.receive, 1, 20)
                assert len(revoked) == count
                assert sorted(map(len, (await owned(client)).values())) == [2, 2]


@pytest.mark.parametrize(
    ("first", "others"),
    [
        ({"assignor": "range"}, {"assignor": "roundrobin"}),
        ({}, {"assignor": "range"}),
        ({"rebalance": "eager"}, {"rebalance": "cooperative"}),
        ({}, {"rebalance": "eager"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["queue", "stream"])
async def test_who_asks_for_something_else_is_refused_and_who_does_not_ask_takes_it(
    mode: str, first: dict[str, Any], others: dict[str, Any], machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        async with client.consumer("orders", group="billing", mode=mode, **first):
            async with client.consumer("orders", group="billing", mode=mode):
                assert first.items() <= (await client.group("billing")).settings.items()
            with pytest.raises(goqueue.GroupConflict, match=next(iter(others))):
                async with client.consumer("orders", group="billing", mode=mode, **others):
                    raise AssertionError("it came in")
