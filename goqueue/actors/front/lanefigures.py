"""What the lanes of all queues have: ready, in flight, served, and how old the oldest is.

Nobody counts that while messages pass: the boards of all partitions of all groups are looked at when somebody wants
to know, in slices. Where a group has a lag, the log is read, too. A broker with very many places to look at, or to
read, leaves the figures out, and each group tells of its own (`groups()`).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import trio

from goqueue.actors.delivery.board import LedgerBoard
from goqueue.actors.groups.board import GroupBoard
from goqueue.actors.runtime.concurrently import with_each
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.ledger.views import LaneFigures
from goqueue.errors import GoQueueError
from goqueue.storage.slices import Slices
from goqueue.types import Priority, Scalar

PLACES_MAX = 10_000
"""Limit of partitions, of all groups together, that are looked at: some tens of milliseconds."""
READ_MAX = 200
"""Limit of partitions whose logs are read."""
SECONDS_MAX = 1.0
PORTION = 256
"""Partitions that are looked at in one step of a slice: a look takes less than a step."""


async def lane_figures(groups: Mapping[str, ActorRef], served: Sequence[int], slices: Slices) -> dict[str, Scalar]:
    """None of it when there is too much to read, or it takes too long: other figures do not wait for that."""
    boards = {name: ref.board for name, ref in groups.items()}
    shown = {name: board for name, board in boards.items() if isinstance(board, GroupBoard)}
    if not groups or sum(board.places for board in shown.values()) > PLACES_MAX:
        return {}
    places = await _places_with_work(shown, slices)
    if len(places) > READ_MAX:
        return {}
    with trio.move_on_after(SECONDS_MAX):
        return _figures(await _lanes_of(places), served)
    return {}


async def _places_with_work(groups: Mapping[str, GroupBoard], slices: Slices) -> list[tuple[LedgerBoard, str]]:
    """Where groups have something before them or in hand: elsewhere there is nothing to count."""
    found = list[tuple[LedgerBoard, str]]()
    for name, group in groups.items():
        lanes = group.lanes()
        while portion := list(islice(lanes, PORTION)):
            found += [(board, name) for board in portion if board.has_work(name)]
            await slices.step()
    return found


async def _lanes_of(places: Sequence[tuple[LedgerBoard, str]]) -> list[tuple[LaneFigures, ...]]:
    """A partition that cannot be read is left out: a description of the group says why."""
    found = list[tuple[LaneFigures, ...]]()

    async def look(place: tuple[LedgerBoard, str]) -> None:
        board, group = place
        try:
            view = await board.view(group)
        except GoQueueError:
            return
        if view is not None:
            found.append(view.lanes)

    await with_each(look, places)
    return found


def _figures(places: Sequence[tuple[LaneFigures, ...]], served: Sequence[int]) -> dict[str, Scalar]:
    figures: dict[str, Scalar] = {}
    for lane in Priority:
        found = _sum([lanes[lane] for lanes in places], served[lane], sum(served))
        figures |= {f"lane.{lane.name.lower()}.{what}": value for what, value in found.items()}
    return figures


def _sum(lanes: Sequence[LaneFigures], served: int, served_by_all: int) -> dict[str, Scalar]:
    ready = _total(each.ready for each in lanes)
    return {
        **({} if ready is None else {"ready": ready}),
        "in_flight": sum(each.in_flight for each in lanes),
        "served": served,
        "share": round(served / served_by_all, 4) if served_by_all else 0.0,
        "oldest_seconds": max((each.oldest_ms or 0 for each in lanes), default=0) / 1_000,
    }


def _total(counts: Iterable[int | None]) -> int | None:
    """None when one of them is not known."""
    known = list(counts)
    return None if None in known else sum(each or 0 for each in known)
