"""What the lanes of all queues have: ready, in flight, served, and how old the oldest is.

Nobody counts that while messages pass: every partition of every group is asked when somebody wants to know. So a
broker with very many of them leaves it out, and each group tells of its own (`DescribeGroup`).
"""

from collections.abc import Iterable, Sequence

import trio

from goqueue.actors.groups.requests import DescribeGroup, FindGroup
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.groups.views import DescribedGroup
from goqueue.core.ledger.views import LaneFigures
from goqueue.errors import GoQueueError
from goqueue.types import Priority, Scalar

PLACES_MAX = 200
"""Partitions, of all groups together, if each group read all of them."""
SECONDS_MAX = 1.0


async def lane_figures(groups: ActorRef, names: Sequence[str], partitions: int) -> dict[str, Scalar]:
    """None of it when there is too much to ask, or somebody does not answer in time: other figures do not wait for
    that."""
    if not names or len(names) * partitions > PLACES_MAX:
        return {}
    with trio.move_on_after(SECONDS_MAX):
        return _figures([each for name in names if (each := await _describe(groups, name)) is not None])
    return {}


def _figures(described: Sequence[DescribedGroup]) -> dict[str, Scalar]:
    rows = [row.lanes for each in described if each.settings.get("mode") == "queue" for row in each.partitions]
    by_lane = [[row[lane] for row in rows if row] for lane in Priority]
    served = sum(each.served for lane in by_lane for each in lane)
    figures: dict[str, Scalar] = {}
    for lane in Priority:
        figures |= {
            f"lane.{lane.name.lower()}.{what}": value for what, value in _sum(by_lane[lane], served).items()
        }
    return figures


async def _describe(groups: ActorRef, name: str) -> DescribedGroup | None:
    try:
        return await (await groups.call(FindGroup(name))).call(DescribeGroup())
    except GoQueueError:
        return None  # it went meanwhile, or cannot be read; whoever asks for it hears why


def _sum(lanes: Sequence[LaneFigures], served_by_all: int) -> dict[str, Scalar]:
    ready, served = _total(each.ready for each in lanes), sum(each.served for each in lanes)
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
