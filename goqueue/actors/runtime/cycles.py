"""Detects cycles of calls between actors: a cycle is an error that names its actors, not a deadlock.

Every actor is a `Party`. While its own task waits for another actor, a `CallWait` lies in the party's list; the
lists together are a graph. Before a wait is added the graph is walked from the actor that is called: a way back
to the caller means that neither could ever go on.

An edge counts only when it is certain that the waiter is stuck behind the target's own task:

- A question that lies in the target's mailbox, or that its handler works on, is certain.
- A deferred question (its handler returned and kept the reply) may be settled by a background task of the
  target. It is certain only when the target has none, and waits itself in its own task and not in one of
  several that a handler started.
- A background task is no party: the actor that owns it goes on meanwhile.

A supervisor waits for the child that it starts or stops; a child that is to be started waits for its
supervisor. These edges are in the graph too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import trio

from goqueue.errors import CallCycle


class CallWait:
    """One edge: the party that holds it waits for `target`."""

    __slots__ = ("by_own_task", "deferred", "target")

    def __init__(self, target: "Party", *, by_own_task: bool = True) -> None:
        self.target = target
        self.by_own_task = by_own_task
        self.deferred = False

    def holds_if(self, target_waits_in_own_task: bool) -> bool:
        if not self.deferred:
            return True
        return target_waits_in_own_task and self.target.background_tasks == 0


class Party:
    """An actor as a node of the graph of waits. It outlives the actor's restarts."""

    __slots__ = ("background_tasks", "name", "task", "waits")

    def __init__(self, name: str) -> None:
        self.name = name
        self.waits: list[CallWait] = []
        self.background_tasks = 0
        self.task: trio.lowlevel.Task | None = None

    @contextmanager
    def waiting(self, wait: CallWait) -> Iterator[None]:
        self.waits.append(wait)
        try:
            yield
        finally:
            self.waits.remove(wait)


# The actor for which the running task works: its own task and those that its handlers start, no background task.
current_party: ContextVar[Party | None] = ContextVar("current_party", default=None)


def refuse_cycle(asker: Party, wait: CallWait) -> None:
    """Raise `CallCycle` if `wait`, begun by `asker`, could never end."""
    if wait.target is not asker and not wait.target.waits:
        return
    way = _way_back(asker, wait, wait, seen=[])
    if way is not None:
        names = [asker.name, *way]
        raise CallCycle(
            f"call cycle {' → '.join(names)}: nobody in it could answer. Calls only go down; "
            "what goes up or sideways is news, or is called from a background task",
            cycle=names,
        )


def _way_back(asker: Party, first: CallWait, wait: CallWait, seen: list[Party]) -> list[str] | None:
    party = wait.target
    if party is asker:
        return [party.name] if wait.holds_if(first.by_own_task) else None
    if party in seen:
        return None
    seen.append(party)
    for onward in party.waits:
        if wait.holds_if(onward.by_own_task):
            way = _way_back(asker, first, onward, seen)
            if way is not None:
                return [party.name, *way]
    return None
