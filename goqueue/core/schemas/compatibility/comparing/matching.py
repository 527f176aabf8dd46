"""The largest matching of two sets whose members fit each other or not: at most one partner for each."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

from goqueue.core.schemas.compatibility.comparing.comparison import Steps

Fits: TypeAlias = Callable[[int, int], Steps[bool]]
"""Whether a member and a partner may be a pair."""


def matched(count: int, partners: int, fits: Fits) -> Steps[dict[int, int]]:
    """Pairs each of `count` members with one of the `partners` where that is possible, as many as can be.

    A pair is asked for when it is needed, and the places nearby first: mostly few members were added or removed.
    """
    pairs, distance = dict[int, int](), 0
    for member in range(count):
        partner = yield from _place(member, partners, distance, fits, pairs)
        distance = distance if partner is None else partner - member
    return {member: partner for partner, member in pairs.items()}


def _place(member: int, partners: int, distance: int, fits: Fits, pairs: dict[int, int]) -> Steps[int | None]:
    """Finds the member a partner. Those who have one already may have to change."""
    waiting, came_from = deque([member]), dict[int, int]()
    while waiting:
        each = waiting.popleft()
        for partner in _nearest_first(each + distance, partners):
            if partner in came_from or not (yield from fits(each, partner)):
                continue
            came_from[partner] = each
            if partner not in pairs:
                _take(partner, came_from, pairs, member)
                return partner
            waiting.append(pairs[partner])
    return None


def _nearest_first(place: int, partners: int) -> Iterator[int]:
    for distance in range(max(place + 1, partners - place)):
        if distance and 0 <= place - distance < partners:
            yield place - distance
        if 0 <= place + distance < partners:
            yield place + distance


def _take(partner: int, came_from: dict[int, int], pairs: dict[int, int], first: int) -> None:
    """Along the way that led to the free partner, each takes the next."""
    by_member = {member: taken for taken, member in pairs.items()}
    while True:
        member = came_from[partner]
        pairs[partner] = member
        if member == first:
            return
        partner = by_member[member]
