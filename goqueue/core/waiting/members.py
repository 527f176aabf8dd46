"""Waiters: members that wait until there is something for them, by group.

Each is let go once. A search in one group does not pass the waiters of others, and a publish looks at none unless
there are some.
"""

from collections.abc import Callable
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from goqueue.core.deadlines import Deadlines

Waiter = TypeVar("Waiter")


class _Wait(NamedTuple, Generic[Waiter]):
    group: str
    member: str
    waiter: Waiter
    served_at: float


class MemberWaits(Generic[Waiter]):
    def __init__(self) -> None:
        self._waits: dict[int, _Wait[Waiter]] = {}
        self._groups: dict[str, dict[int, None]] = {}
        self._deadlines: Deadlines[int] = Deadlines()
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._waits)

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def wait(self, group: str, member: str, waiter: Waiter, deadline: float, served_at: float = 0.0) -> None:
        """`served_at`: when the member last got something, from any partition."""
        number = next(self._numbers)
        self._waits[number] = _Wait(group, member, waiter, served_at)
        self._groups.setdefault(group, {})[number] = None
        self._deadlines.note(number, deadline)

    def of(self, group: str, chosen: Callable[[str], bool] = lambda _: True) -> list[Waiter]:
        """The waiters of a group whose member is chosen, in the order in which they came; they wait no more."""
        numbers = list(self._groups.get(group, ()))
        return [self._let_go(number) for number in numbers if chosen(self._waits[number].member)]

    def first(self, group: str, chosen: Callable[[str, Waiter], bool]) -> Waiter | None:
        """The chosen waiter that was served longest ago; it waits no more.

        To wait anew is not to go behind the others: a member that asks often keeps its turn.
        """
        numbers = self._groups.get(group, ())
        for _, number in sorted((self._waits[number].served_at, number) for number in numbers):
            wait = self._waits[number]
            if chosen(wait.member, wait.waiter):
                return self._let_go(number)
        return None

    def groups(self) -> list[str]:
        """The groups that have waiters."""
        return list(self._groups)

    def forget(self, group: str, is_gone: Callable[[Waiter], bool]) -> list[Waiter]:
        """Let go of the waiters of a group that have gone without a word."""
        numbers = [number for number in self._groups.get(group, ()) if is_gone(self._waits[number].waiter)]
        return [self._let_go(number) for number in numbers]

    def all(self) -> list[Waiter]:
        return [self._let_go(number) for number in list(self._waits)]

    def expired(self, now: float) -> list[Waiter]:
        """The waiters whose time is up, earliest first; they wait no more."""
        return [self._let_go(number) for number in self._deadlines.passed(now)]

    def next_deadline(self) -> float | None:
        return self._deadlines.next()

    def _let_go(self, number: int) -> Waiter:
        wait = self._waits.pop(number)
        self._deadlines.drop(number)
        group = self._groups[wait.group]
        del group[number]
        if not group:
            del self._groups[wait.group]
        return wait.waiter
