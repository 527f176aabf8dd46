"""One consumer of a stream, as its program knows it: where it reads, and what it has said to be handled.

For each partition `next` is the offset behind what was handed out last, or where the program has sought to. What
was handed out is in work from `work_from` on, until the program asks for more, commits it or seeks elsewhere.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

Key: TypeAlias = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(slots=True)
class Spot:
    """A partition in the hands of one consumer."""

    next: int | None = None
    """None before anything was handed out."""
    work_from: int | None = None
    since: float = -math.inf
    """When it came, or something of it was handed out last."""
    is_paused: bool = False
    handed: list[int] = field(default_factory=list)
    """What is not handled yet."""

    @property
    def handled(self) -> int | None:
        return self.next if self.work_from is None else self.work_from

    def hand(self, offset: int) -> None:
        self.next, self.since = offset + 1, trio.current_time()
        self.work_from = offset if self.work_from is None else min(self.work_from, offset)
        self.handed.append(offset)

    def end_work(self, to: int) -> list[int]:
        """Everything below is handled; what that is."""
        done = [offset for offset in self.handed if offset < to]
        self.handed = [offset for offset in self.handed if offset >= to]
        if self.work_from is not None and self.next is not None:
            self.work_from = None if to >= self.next else max(self.work_from, to)
        return done

    def move_to(self, offset: int) -> list[int]:
        """Go on there; what is handled by that."""
        done, self.handed = self.handed, []
        self.next, self.work_from = offset, None
        return done


@dataclass(slots=True, eq=False)
class Reading:
    holder: str
    member: str | None
    auto_commits: bool
    has_steady_lines: bool
    """They are cut only when the broker ends."""
    generation: Callable[[], int] = lambda: 0
    """In which it is a member, as far as it knows."""
    generation_before: int = 0
    """What that was when the broker ended: what it says in this one may be of before."""
    spots: dict[Key, Spot] = field(default_factory=dict)
    """Of the partitions that the program has heard of, and that it has not heard to be gone."""
    gone: dict[Key, Spot] = field(default_factory=dict)
    """Of those that are gone. Where nobody else came in between, it goes on as if nothing had happened."""

    owed: set[Key] = field(default_factory=set)
    """It has let go of these, which its next commit of everything may name, though it has them again by then."""

    def gain(self, partitions: Iterable[Key]) -> None:
        for key in partitions:
            spot = self.gone.pop(key, Spot())
            spot.since, spot.is_paused = trio.current_time(), False
            self.spots.setdefault(key, spot)

    def lose(self, partitions: Iterable[Key]) -> None:
        for key in partitions:
            if key in self.spots:
                self.gone[key] = self.spots.pop(key)
                self.owed.add(key)

    def __str__(self) -> str:
        return self.holder
