"""Random trees under random trouble: whatever happens, order holds, nobody hangs and nothing is left (G15)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.messages import Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.restarts import Strategy, TooManyRestarts, never_restarts
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import AddChildren, RemoveChildren, Supervisor
from goqueue.errors import CallCycle, GoQueueError, LogStopped
from tests.actors.runtime.troupe import (
    Bug,
    Caller,
    Do,
    Keep,
    Puppet,
    background_tasks,
    calling,
    crash,
    nothing,
    rest,
    unsettled,
)


@dataclass(frozen=True)
class Leaf:
    start_seconds: float
    stop_seconds: float


@dataclass(frozen=True)
class Branch:
    strategy: Strategy
    restarts_max: int
    children: list[Leaf | Branch]


@dataclass(frozen=True)
class Event:
    """At this time, somebody sends this to the leaf of this number (modulo their number)."""

    at_seconds: float
    leaf: int
    deed: str
    other: int


leaves = st.builds(
    Leaf,
    start_seconds=st.sampled_from([0.0, 0.0, 0.3]),
    stop_seconds=st.sampled_from([0.0, 0.0, 0.3, 1000.0]),
)
nodes = st.recursive(
    leaves,
    lambda below: st.builds(
        Branch,
        strategy=st.sampled_from(Strategy),
        restarts_max=st.integers(0, 4),
        children=st.lists(below, max_size=4),
    ),
    max_leaves=8,
)
roots = st.builds(
    Branch,
    strategy=st.sampled_from(Strategy),
    restarts_max=st.integers(0, 4),
    children=st.lists(nodes, min_size=1, max_size=4),
)
DEEDS = [
    "nothing",
    "rest",
    "crash",
    "crash beside",
    "keep",
    "call",
    "crash of other",
    "fatal",
    "add",
    "remove",
]


def some(deeds: list[str]) -> st.SearchStrategy[Event]:
    return st.builds(
        Event,
        at_seconds=st.sampled_from([0.0, 0.0, 0.1, 0.2, 0.5, 1.0, 3.0]),
        leaf=st.integers(0, 7),
        deed=st.sampled_from(deeds),
        other=st.integers(0, 7),
    )


class Troubled(Puppet):
    def __init__(self, journal: list[str], plan: Leaf) -> None:
        super().__init__(journal)
        self.plan = plan

    async def start(self) -> None:
        await super().start()
        await trio.sleep(self.plan.start_seconds)

    async def stop(self) -> None:
        await super().stop()
        await trio.sleep(self.plan.stop_seconds)


@dataclass
class Play:
    root: Branch
    events: list[Event]
    journal: list[str] = field(default_factory=list)
    leaves: list[ChildSpec] = field(default_factory=list)
    added: list[ChildSpec] = field(default_factory=list)
    callers: list[Caller] = field(default_factory=list)
    error: Exception | None = None
    fatal: bool = False

    def spec(self, node: Leaf | Branch, name: str) -> ChildSpec:
        if isinstance(node, Leaf):
            plan = node
            spec = ChildSpec(name, lambda: Troubled(self.journal, plan), stop_timeout_seconds=1.0)
            self.leaves.append(spec)
            return spec
        below = [self.spec(child, f"{name}.{number}") for number, child in enumerate(node.children)]
        branch = node

        def factory() -> Supervisor:
            return Supervisor(
                below,
                strategy=branch.strategy,
                restarts_max=branch.restarts_max,
                report=lambda _report: None,
            )

        return supervised(name, factory)

    async def perform(self) -> None:
        spec = self.spec(self.root, "0")
        before = trio.lowlevel.current_statistics().tasks_living
        with trio.fail_after(10_000):
            await self.run_tree(spec)
        assert trio.lowlevel.current_statistics().tasks_living == before

    async def run_tree(self, spec: ChildSpec) -> None:
        async with trio.open_nursery() as nursery:
            try:
                async with running(spec) as root:
                    self.check_start_order()
                    await self.make_trouble(nursery, root)
                    self.journal.append("--- stop")
            except (TooManyRestarts, LogStopped, ExceptionGroup) as error:
                self.error = error

    async def make_trouble(self, nursery: trio.Nursery, root: ActorRef) -> None:
        started = trio.current_time()
        for event in sorted(self.events, key=lambda event: event.at_seconds):
            await trio.sleep_until(started + event.at_seconds)
            for caller in self.callers_of(event, root):
                self.callers.append(caller)
                nursery.start_soon(caller)
        await trio.sleep(30)

    def callers_of(self, event: Event, root: ActorRef) -> list[Caller]:
        leaves = self.leaves + self.added
        if event.deed in ("add", "remove"):
            return [Caller(root, self.change(event))]
        return [Caller(leaves[event.leaf % len(leaves)].ref, self.message(event, leaves))] if leaves else []

    def change(self, event: Event) -> Request[Any]:
        if event.deed == "remove":
            return RemoveChildren((f"0.{event.leaf}",))
        plan, name = Leaf(0.1, 0.1), f"0.{len(self.root.children) + len(self.added)}"
        spec = ChildSpec(name, lambda: Troubled(self.journal, plan))
        self.added.append(spec)
        return AddChildren((spec,))

    def message(self, event: Event, leaves: list[ChildSpec]) -> Request[Any]:
        other = leaves[event.other % len(leaves)].ref
        deeds: dict[str, Request[Any]] = {
            "nothing": Do(nothing),
            "rest": Do(rest),
            "crash": Do(crash),
            "crash beside": Do(_crash_beside),
            "keep": Keep(),
            "call": calling(other, Do(rest)),
            "crash of other": calling(other, Do(crash)),
            "fatal": Do(self._fatal),
        }
        return deeds[event.deed]

    async def _fatal(self, _puppet: Puppet) -> None:
        self.fatal = True
        raise LogStopped("fsync failed")

    # What must hold.

    def check_start_order(self) -> None:
        assert self.journal == [f"{spec.name} starts" for spec in self.leaves]

    def check_ends(self) -> None:
        for caller in self.callers:
            assert caller.done, "a caller hangs"
            assert caller.error is None or isinstance(caller.error, GoQueueError)
        for spec in self.leaves + self.added:
            assert (spec.ref.is_down, spec.ref.counts.depth, unsettled(spec.ref)) == (True, 0, 0)
            assert background_tasks(spec.ref) == 0

    def check_lives(self) -> None:
        """One life after the other: it starts, may stop, and closes, always."""
        words = {"starts": "S", "stops": "T", "closes": "C"}
        for spec in self.leaves + self.added:
            life = "".join(words[line.split()[1]] for line in self.journal if line.split()[0] == spec.name)
            assert re.fullmatch("(ST?C)*", life), (spec.name, life)

    def check_stop_order(self) -> None:
        if "--- stop" in self.journal:
            added = [line.split()[0] for line in self.journal if line.endswith("starts")]
            names = list(dict.fromkeys([spec.name for spec in self.leaves] + added))[::-1]
            after = self.journal[self.journal.index("--- stop") :]
            stops = [names.index(line.split()[0]) for line in after if line.endswith("stops")]
            assert stops == sorted(stops)

    def check_error(self) -> None:
        if self.fatal:
            assert never_restarts(self.error)
        elif self.error is not None:
            assert isinstance(self.error, TooManyRestarts)


async def _crash_beside(actor: Puppet) -> None:
    async def later() -> None:
        await trio.sleep(0.1)
        raise Bug("beside")

    actor.background(later)


def perform(play: Play) -> None:
    trio.run(play.perform, clock=MockClock(autojump_threshold=0))


@given(root=roots, trouble=st.lists(some(DEEDS), max_size=14))
@settings(deadline=None, max_examples=100)
def test_any_tree_survives_any_trouble(root: Branch, trouble: list[Event]) -> None:
    play = Play(root, trouble)
    perform(play)
    play.check_ends()
    play.check_lives()
    play.check_stop_order()
    play.check_error()


@given(root=roots)
@settings(deadline=None, max_examples=40)
def test_any_tree_without_trouble_starts_in_order_and_stops_in_reverse(root: Branch) -> None:
    play = Play(root, [])
    perform(play)
    names = [spec.name for spec in play.leaves]
    starts = [f"{name} starts" for name in names]
    stops = [f"{name} stops" for name in reversed(names)]
    assert [line for line in play.journal if not line.endswith("closes")] == [*starts, "--- stop", *stops]
    assert play.error is None


@given(root=roots, trouble=st.lists(some(DEEDS), max_size=10), cancel_at=st.floats(0, 4))
@settings(deadline=None, max_examples=40)
def test_any_tree_may_be_cancelled_at_any_time(root: Branch, trouble: list[Event], cancel_at: float) -> None:
    play = Play(root, trouble)

    async def cancelled() -> None:
        with trio.move_on_after(cancel_at):
            await play.perform()

    trio.run(cancelled, clock=MockClock(autojump_threshold=0))
    play.check_lives()
    for spec in play.leaves:
        assert (spec.ref.is_down, unsettled(spec.ref), background_tasks(spec.ref)) == (True, 0, 0)


@given(root=roots, trouble=st.lists(some(["call"]), max_size=14))
@settings(deadline=None, max_examples=40)
def test_calls_across_a_tree_are_answered_or_name_their_cycle(root: Branch, trouble: list[Event]) -> None:
    play = Play(root, trouble)
    perform(play)
    for caller in play.callers:
        assert caller.done
        assert caller.error is None or isinstance(caller.error, CallCycle)
