"""The largest matching of two sets whose members fit each other or not: at most one partner for each."""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from goqueue.core.schemas.compatibility.comparing.comparison import Steps

Fits: TypeAlias = Callable[[int, int], Steps[bool]]
"""Whether a member and a partner may be a pair."""


def matched(count: int, partners: int, fits: Fits) -> Steps[dict[int, int]]:
    """Pairs each of `count` members with one of the `partners` where that is possible, as many as can be.

    A pair is asked for when it is needed. Members of the same place are tried first: mostly nothing has moved.
    """
    pairs = dict[int, int]()
    """By partner."""
    for member in range(count):
        yield from _place(member, partners, fits, pairs)
    return {member: partner for partner, member in pairs.items()}


def _place(
    member: int, partners: int, fits: Callable[[int, int], Steps[bool]], pairs: dict[int, int]
) -> Steps[None]:
    """Finds the member a partner. Those who have one already may have to change."""
    waiting, came_from = deque([member]), dict[int, int]()
    while waiting:
        each = waiting.popleft()
        for partner in _in_order(each, partners):
            if partner in came_from or not (yield from fits(each, partner)):
                continue
            came_from[partner] = each
            if partner not in pairs:
                _take(partner, came_from, pairs, member)
                return
            waiting.append(pairs[partner])


def _in_order(member: int, partners: int) -> list[int]:
    others = [each for each in range(partners) if each != member]
    return [member, *others] if member < partners else others


def _take(partner: int, came_from: dict[int, int], pairs: dict[int, int], first: int) -> None:
    """Along the way that led to the free partner, each takes the next."""
    by_member = {member: taken for taken, member in pairs.items()}
    while True:
        member = came_from[partner]
        pairs[partner] = member
        if member == first:
            return
        partner = by_member[member]
