"""Whatever happens to members, topics and partitions: once it is calm, everything is read by exactly one (G10)."""

from random import Random
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from goqueue.actors.groups.requests import Leave, MemberLost
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.groups.views import MemberState
from goqueue.errors import PartitionUnavailable, UnknownMember
from goqueue.testing.disk import SimulatedDisk
from tests.actors.groups.groupstage import Place, Stage, heartbeat, join, on_stage, parts

MEMBERS = ["ann", "bob", "cid"]
TOPICS = ["orders", "returns"]
CALM_SECONDS = 70.0
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "lose", "create", "delete", "grow", "refuse", "heal", "crash", "wait"]),
        st.integers(0, 2),
    ),
    max_size=20,
)


class Crowd:
    """Members that do what clients do: they keep their heart beating, and join again when they are told to."""

    def __init__(self, stage: Stage, group: ActorRef, **wanted: Any) -> None:
        self._stage = stage
        self._group = group
        self._wanted = wanted
        self.held: dict[str, MemberState] = {}
        self._scopes: dict[str, trio.CancelScope] = {}

    async def join(self, member: str, nursery: trio.Nursery) -> None:
        if member not in self._scopes:
            self.held[member] = await self._group.call(join(member, *TOPICS, **self._wanted))
            self._scopes[member] = trio.CancelScope()
            nursery.start_soon(self._live, member, self._scopes[member])

    async def _live(self, member: str, scope: trio.CancelScope) -> None:
        with scope:
            await trio.lowlevel.checkpoint()
            while True:
                try:
                    held = await self._group.call(heartbeat(self.held[member]))
                except UnknownMember:
                    held = await self._group.call(join(member, *TOPICS, **self._wanted))
                if scope.cancel_called:
                    return  # it went while the answer was on its way
                self.held[member] = held

    async def go(self, member: str, *, in_good_order: bool) -> None:
        if member in self._scopes:
            self._scopes.pop(member).cancel()
            del self.held[member]
            await self._group.call(Leave(member) if in_good_order else MemberLost(member, 1))

    def stop(self) -> None:
        for scope in self._scopes.values():
            scope.cancel()


async def happen(stage: Stage, crowd: Crowd, nursery: trio.Nursery, event: str, number: int) -> None:
    topic, place = TOPICS[number % 2], (TOPICS[number % 2], number // 2)
    match event:
        case "join":
            await crowd.join(MEMBERS[number], nursery)
        case "leave" | "lose":
            await crowd.go(MEMBERS[number], in_good_order=event == "leave")
        case "create" if topic not in stage.topics:
            await stage.create(topic, 1 + number)
        case "delete" if topic in stage.topics:
            await stage.delete(topic)
        case "grow" if topic in stage.topics:
            await stage.grow(topic, stage.topics[topic].partitions + 1)
        case "refuse":
            stage.script.refusing[place] = PartitionUnavailable("it is down")
        case "heal":
            stage.script.refusing.clear()
        case "crash":
            stage.script.crashing.add(place)
        case _:
            await trio.sleep(number)


@pytest.mark.parametrize("wanted", [{}, {"rebalance": "eager"}, {"assignor": "range"}], ids=["", "eager", "range"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS)
async def test_in_the_end_every_partition_has_the_one_owner_that_believes_it(
    autojump_clock: MockClock, wanted: dict[str, Any], events: list[tuple[str, int]]
) -> None:
    async with on_stage(SimulatedDisk(Random(0))) as stage, trio.open_nursery() as nursery:
        crowd = Crowd(stage, await stage.group(), **wanted)
        await stage.create("orders", 3)
        await crowd.join("ann", nursery)
        for event, number in events:
            await happen(stage, crowd, nursery, event, number)
        stage.script.refusing.clear()
        stage.script.crashing.clear()
        await trio.sleep(CALM_SECONDS)
        there = [(topic.name, number) for topic in stage.topics.values() for number in range(topic.partitions)]
        believed: list[tuple[Place, str]] = [
            (place, member) for member, held in crowd.held.items() for place in parts(held)
        ]
        if crowd.held:
            assert sorted(place for place, _ in believed) == sorted(there)
        for place, member in believed:
            assert stage.script.owner(*place) == member
        crowd.stop()
