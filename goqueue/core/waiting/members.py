"""Waiters: members that wait until there is something for them, by group.

Each is let go once. A search in one group does not pass the waiters of others, and a publish looks at none unless
there are some.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from goqueue.core.deadlines import Deadlines

Waiter = TypeVar("Waiter")


@dataclass(slots=True, eq=False)
class _Wait(Generic[Waiter]):
    group: str
    member: str
    waiter: Waiter
    served_at: float


class MemberWaits(Generic[Waiter]):
    def __init__(self) -> None:
        self._groups: dict[str, dict[_Wait[Waiter], None]] = {}
        """In the order in which they came."""
        self._deadlines: Deadlines[_Wait[Waiter]] = Deadlines()

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def wait(self, group: str, member: str, waiter: Waiter, deadline: float, served_at: float = 0.0) -> None:
        """`served_at`: when the member last got something, from any partition."""
        wait = _Wait(group, member, waiter, served_at)
        self._groups.setdefault(group, {})[wait] = None
        self._deadlines.note(wait, deadline)

    def of(self, group: str, chosen: Callable[[str, Waiter], bool]) -> list[Waiter]:
        """The chosen waiters of a group, in the order in which they came; they wait no more."""
        waits = list(self._groups.get(group, ()))
        return [self._let_go(wait) for wait in waits if chosen(wait.member, wait.waiter)]

    def first(self, group: str, chosen: Callable[[str, Waiter], bool]) -> Waiter | None:
        """The chosen waiter that was served longest ago; it waits no more.

        To wait anew is not to go behind the others: a member that asks often keeps its turn.
        """
        for wait in sorted(self._groups.get(group, ()), key=lambda wait: wait.served_at):
            if chosen(wait.member, wait.waiter):
                return self._let_go(wait)
        return None

    def groups(self) -> list[str]:
        """The groups that have waiters."""
        return list(self._groups)

    def all(self) -> list[Waiter]:
        return [self._let_go(wait) for wait in list(self._deadlines)]

    def expired(self, now: float) -> list[Waiter]:
        """The waiters whose time is up, earliest first; they wait no more."""
        return [self._let_go(wait) for wait in self._deadlines.passed(now)]

    def next_deadline(self) -> float | None:
        return self._deadlines.next()

    def _let_go(self, wait: _Wait[Waiter]) -> Waiter:
        self._deadlines.drop(wait)
        group = self._groups[wait.group]
        del group[wait]
        if not group:
            del self._groups[wait.group]
        return wait.waiter
