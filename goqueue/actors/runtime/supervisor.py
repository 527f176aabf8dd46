"""A supervisor: starts its children in order, stops them in reverse, and starts again those that crash.

It is an actor itself, so supervisors nest: its children run in its nursery, and adding or removing one is a
message. It starts and stops its children in its own task, one after the other; children that do not build on each
other may be started and stopped some at a time (`width`).

A crash is handled in this order. An error that no restart may follow (`NeverRestart`, a stopped log) ends the
supervisor. Else one restart is taken from the budget, and the children that the strategy names are stopped in
reverse and started in order; with the budget spent, the supervisor gives up. Giving up and ending look alike: stop
all children in order, then raise, so that the next supervisor above decides. Of several crashed children the one
started first comes first, since others may build on it; a start that fails is one more crash.

What callers of a child see meanwhile: a call waits while the child is being started, also before its turn has
come. It gets `ActorDied` while others must be stopped first: one of these could be the caller, which would wait for
the supervisor while the supervisor waits for it.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import trio

from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import Child, ChildSpec, ChildState
from goqueue.actors.runtime.concurrently import concurrently
from goqueue.actors.runtime.cycles import CallWait, Party, refuse_cycle
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.mailbox import SiblingCounts
from goqueue.actors.runtime.messages import Reply, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.reports import ChildReport, Fate, log_report
from goqueue.actors.runtime.restarts import RestartBudget, Strategy, TooManyRestarts, never_restarts
from goqueue.errors import ActorDied


@dataclass(frozen=True, slots=True)
class AddChildren(Request["tuple[ActorRef | Exception, ...]"]):
    """Start these after the present ones, up to `width` at a time: for each its ref, or what its start raised."""

    specs: tuple[ChildSpec, ...]


@dataclass(frozen=True, slots=True)
class RemoveChildren(Request[None]):
    """Stop children, up to `width` at a time, and forget them. Unknown names are ignored."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReopenChild(Request[None]):
    """Stop a child and start it again from its factory. Its ref stays, and no restart is counted against it."""

    name: str


class Supervisor(Actor):
    def __init__(
        self,
        children: Sequence[ChildSpec] = (),
        *,
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        restarts_max: int = 3,
        window_seconds: float = 5.0,
        width: int = 1,
        report: Callable[[ChildReport], None] = log_report,
    ) -> None:
        self._strategy = strategy
        self._budget = RestartBudget(restarts_max, window_seconds)
        self._width = width
        self._tell = report
        self._children: dict[str, Child] = {}
        """In the order of their start."""
        self._counts = SiblingCounts()
        self._starting: trio.CancelScope | None = None
        self._stopping = False
        self._unattended = False
        for spec in children:
            self._place(spec)

    # Its own life.

    async def start(self) -> None:
        try:
            await self._start_in_order(self._in_order())
        except Exception as error:
            await self._end_with(error)

    def stop_asked(self) -> None:
        self._stopping = True
        if self._starting is not None:
            self._starting.cancel()

    async def stop(self) -> None:
        await self._stop_all()
        errors = [child.error for child in self._in_order() if child.error is not None]
        if errors:
            raise max(errors, key=never_restarts)

    def close(self) -> None:
        for child in self._in_order():
            child.forsake()

    # Children come and go.

    def _in_order(self) -> list[Child]:
        return list(self._children.values())

    def _place(self, spec: ChildSpec) -> Child:
        if spec.name in self._children:
            raise ValueError(f"there is a child {spec.name} already")
        spec.mailbox.siblings = self._counts
        child = self._children[spec.name] = Child(spec, self._child_ended)
        return child

    @defers(AddChildren)
    async def add_children(self, message: AddChildren, reply: "Reply[tuple[ActorRef | Exception, ...]]") -> None:
        for spec in message.specs:
            if spec.name in self._children:
                reply.fail(ValueError(f"{self.name} has a child {spec.name} already"))
                return
        children = [self._place(spec) for spec in message.specs]
        failures = await self._start_side_by_side(children)
        for child in failures:
            self._drop(child)
        reply.resolve(tuple(failures.get(child, child.spec.ref) for child in children))

    @defers(RemoveChildren)
    async def remove_children(self, message: RemoveChildren, reply: Reply[None]) -> None:
        found = [self._children[name] for name in message.names if name in self._children]
        if reply.asker is not None:
            for child in found:
                refuse_cycle(reply.asker, CallWait(child.party))
        await self._stop_in_reverse(found)
        for child in found:
            self._drop(child)
        reply.resolve(None)

    @defers(ReopenChild)
    async def reopen_child(self, message: ReopenChild, reply: Reply[None]) -> None:
        child = self._children.get(message.name)
        if child is None:
            reply.fail(ValueError(f"{self.name} has no child {message.name}"))
            return
        if reply.asker is not None:
            refuse_cycle(reply.asker, CallWait(child.party))
        await self._stop_in_reverse([child])
        try:
            await self._start_in_order([child])
        except Exception as error:
            self._drop(child)
            reply.fail(error)
        else:
            reply.resolve(None)

    def _drop(self, child: Child) -> None:
        if never_restarts(child.error):
            self._unattended = True  # the next turn ends the supervisor
        else:
            child.forsake()
            del self._children[child.name]

    # Crashes. The end of a child sets a deadline in the past, so that `tick` handles it in the next turn.

    def _child_ended(self, child: Child) -> None:
        if child.state is ChildState.DOWN:
            return
        self._unattended = True
        if self._life.mailbox.idle:
            self._let_callers_wait([child])
        self.wake()

    async def end_turn(self) -> None:
        if self._unattended:
            self._let_callers_wait(self._ended())

    def _let_callers_wait(self, ended: Sequence[Child]) -> None:
        """The supervisor is free, and no other child has to be stopped first: it handles these ends next."""
        if self._strategy is Strategy.ONE_FOR_ONE:
            for child in ended:
                child.expect(self._party)

    def next_deadline(self) -> float | None:
        return -math.inf if self._unattended else None

    async def tick(self, _now: float) -> None:
        self._unattended = False
        try:
            await self._look_after_ends()
        except Exception as error:
            await self._end_with(error)

    async def _look_after_ends(self) -> None:
        while not self._stopping:
            self._end_if_no_restart_may_follow()
            ended = self._ended()
            if not ended:
                return
            await self._restart(ended[0])

    def _end_if_no_restart_may_follow(self) -> None:
        for child in self._in_order():
            if child.error is not None and never_restarts(child.error):
                self._report(child, Fate.GIVEN_UP)
                raise child.error

    def _ended(self) -> list[Child]:
        return [child for child in self._in_order() if child.state is ChildState.CRASHED]

    async def _restart(self, child: Child) -> None:
        self._take_from_budget(child)
        children = self._in_order()
        together = [child] if self._strategy is Strategy.ONE_FOR_ONE else children[children.index(child) :]
        for ended in [one for one in self._ended() if one in together]:
            self._report(ended, Fate.RESTARTING)
        await self._stop_in_reverse([one for one in together if one is not child])
        self._end_if_no_restart_may_follow()
        try:
            await self._start_in_order(together)
        except Exception as error:
            if not self._stopping and all(one.error is not error for one in together):
                raise

    def _take_from_budget(self, child: Child) -> None:
        if self._budget.spend(trio.current_time()):
            return
        self._report(child, Fate.GIVEN_UP)
        raise TooManyRestarts(
            f"{self.name} gives up on {child.name}: more than {self._budget.restarts_max} restarts "
            f"within {self._budget.window_seconds:g} s"
        ) from child.error

    # Starting and stopping.

    async def _start_in_order(self, children: Sequence[Child]) -> None:
        """The first that cannot start ends it."""
        await self._unless_stopped(partial(self._start_each, children))

    async def _start_each(self, children: Sequence[Child]) -> None:
        assert self._life.nursery is not None
        for child in children:
            child.expect(self._party)
        for child in children:
            await trio.lowlevel.checkpoint_if_cancelled()
            with self._party.waiting(CallWait(child.party)):
                await child.start(self._life.nursery)

    async def _start_side_by_side(self, children: Sequence[Child]) -> dict[Child, Exception]:
        """The children that could not be started, and why."""
        failures: dict[Child, Exception] = {}

        async def start(child: Child) -> None:
            try:
                await self._start_each([child])
            except Exception as error:
                failures[child] = error

        try:
            await self._unless_stopped(partial(concurrently, start, children, self._width))
        except ActorDied as error:
            failures |= {child: error for child in children if child.state is ChildState.DOWN}
        return failures

    async def _unless_stopped(self, start: Callable[[], Awaitable[None]]) -> None:
        """A stop cancels it: a start may take long, and the children would be stopped anyway."""
        with trio.CancelScope() as self._starting:
            if self._stopping:
                self._starting.cancel()
            await start()
            return
        raise ActorDied(f"{self.name} is stopping and starts nothing any more")

    async def _stop_in_reverse(self, children: Sequence[Child]) -> None:
        """Up to `width` at a time. Callers of children that are not running get an error first: others may wait."""
        before = [child.error for child in children]
        for child in children:
            child.forsake()
        await concurrently(self._stop_one, reversed(children), self._width)
        for child, error in zip(children, before, strict=True):
            if child.was_cut_off:
                self._report(child, Fate.CUT_OFF)
            if child.error is not error:
                self._report(child, Fate.STOP_FAILED)

    async def _stop_one(self, child: Child) -> None:
        with self._party.waiting(CallWait(child.party)):
            await child.stop()

    async def _end_with(self, error: Exception) -> NoReturn:
        """Stop all, then raise this error, or one that no restart may follow if a stop brought one."""
        await self._stop_all()
        errors = [child.error for child in self._in_order() if child.error is not None]
        raise next((worse for worse in errors if never_restarts(worse)), error)

    async def _stop_all(self) -> None:
        for child in self._ended():
            if child.error is not None and not child.is_reported:
                self._report(child, Fate.LOST)
        await self._stop_in_reverse(self._in_order())

    def _report(self, child: Child, fate: Fate) -> None:
        child.is_reported = True
        self._tell(
            ChildReport(self.name, child.name, fate, child.error, child.spec.kind, child.spec.mailbox.counts.starts)
        )

    @property
    def _party(self) -> Party:
        return self._life.mailbox.party
