"""A child of a supervisor: its current actor, how it is started, and the ladder by which it is stopped.

The child outlives its actors: each start makes a new actor from the factory and gives it the same mailbox.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import trio

from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.cycles import Party
from goqueue.actors.runtime.life import Life
from goqueue.actors.runtime.mailbox import Mailbox, MailboxState
from goqueue.actors.runtime.ref import ActorRef


@dataclass(frozen=True, eq=False)
class ChildSpec:
    """What a parent must know of a child. `ref` is good from the beginning, before the child is started.

    The factory builds the actor anew for each start, so that its state comes from disk and not from the one
    that crashed. A spec is for one child of one parent.
    """

    name: str
    factory: Callable[[], Actor]
    stop_timeout_seconds: float = 5.0
    """Limit of a stop, then the child is cancelled. `supervised` has none: its children have limits."""
    mailbox_size_max: int = 1_000
    kind: str = ""
    """Restarts are counted by kind. The default is the name: the actor is the only one of its kind."""
    mailbox: Mailbox = field(init=False, repr=False)
    ref: ActorRef = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.kind or self.name)
        object.__setattr__(self, "mailbox", Mailbox(self.name, self.mailbox_size_max))
        object.__setattr__(self, "ref", ActorRef(self.mailbox))


def supervised(name: str, factory: Callable[[], Actor]) -> ChildSpec:
    """The spec of a child that is a supervisor: its stop is limited only by the limits of those below it."""
    return ChildSpec(name, factory, stop_timeout_seconds=math.inf)


class ChildState(Enum):
    DOWN = "down"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    CRASHED = "crashed"
    """It crashed or could not be started, and the supervisor has not dealt with it yet; `error` says why."""


_NEXT = {
    ChildState.DOWN: {ChildState.STARTING},
    ChildState.STARTING: {ChildState.RUNNING, ChildState.CRASHED, ChildState.DOWN},
    ChildState.RUNNING: {ChildState.STOPPING, ChildState.CRASHED},
    ChildState.STOPPING: {ChildState.DOWN},
    ChildState.CRASHED: {ChildState.STARTING, ChildState.DOWN},
}


class Child:
    def __init__(self, spec: ChildSpec, on_end: "Callable[[Child], None]") -> None:
        self.spec = spec
        self.state = ChildState.DOWN
        self.error: Exception | None = None
        self.was_cut_off = False
        self.is_reported = False
        self._on_end = on_end
        self._life: Life | None = None
        self._scope = trio.CancelScope()
        self._gone = trio.Event()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def party(self) -> Party:
        return self.spec.mailbox.party

    def expect(self, starter: Party | None) -> None:
        """The child will be started soon: its callers wait from now on."""
        if self.spec.mailbox.state is MailboxState.DOWN:
            self.spec.mailbox.expect(starter)

    def forsake(self) -> None:
        """The child will not be started, or not soon: its callers get an error."""
        if self.spec.mailbox.state is MailboxState.EXPECTING:
            self.spec.mailbox.abandon("was not started", self.error)

    async def start(self, nursery: trio.Nursery) -> None:
        """Return once the actor is ready; raise what its start raised."""
        self._prepare()
        try:
            await nursery.start(self._run, name=self.name)
        except BaseException as error:
            self._note_failed_start(error)
            raise
        if self.state is ChildState.STARTING:
            self._move(ChildState.RUNNING)

    def _note_failed_start(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            self.error, self.is_reported = error, True  # the caller gets it now
            self._move(ChildState.CRASHED)
        elif self.state is ChildState.STARTING:
            self._move(ChildState.DOWN)  # cancelled

    def _prepare(self) -> None:
        self._move(ChildState.STARTING)
        self.expect(None)
        self.error, self.was_cut_off, self.is_reported = None, False, False
        self._scope, self._gone = trio.CancelScope(), trio.Event()
        self._life = Life(self.spec.factory, self.spec.mailbox)
        self.spec.mailbox.counts.starts += 1
        self.spec.mailbox.siblings.starts += 1

    async def _run(self, *, task_status: trio.TaskStatus[None]) -> None:
        assert self._life is not None
        try:
            with self._scope:
                await self._life.run(task_status=task_status)
        except Exception as error:
            if not self._life.was_ready:
                raise  # to the caller of `start`
            self.error = error
        self._leave()

    def _leave(self) -> None:
        self._move(ChildState.DOWN if self.state is ChildState.STOPPING else ChildState.CRASHED)
        self._gone.set()
        self._on_end(self)

    async def stop(self) -> None:
        """Ask, wait for a bounded time, cancel. Afterwards none of its tasks runs. A second call does nothing."""
        if self.state is ChildState.RUNNING:
            self._move(ChildState.STOPPING)
            assert self._life is not None
            self._life.ask_to_stop()
        if self.state is ChildState.STOPPING:
            await self._see_it_go()
        elif self.state is ChildState.CRASHED:
            self._move(ChildState.DOWN)

    async def _see_it_go(self) -> None:
        with trio.move_on_after(self.spec.stop_timeout_seconds):
            await self._gone.wait()
        if not self._gone.is_set():
            self.was_cut_off = True
            self._scope.cancel()
            await self._gone.wait()

    def _move(self, state: ChildState) -> None:
        if state not in _NEXT[self.state]:
            raise RuntimeError(f"child {self.name} is {self.state.value} and cannot become {state.value}")
        self.state = state
