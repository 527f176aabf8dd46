"""The requests of clients about delayed messages."""

from collections.abc import Callable
from typing import Any

from goqueue.actors.delays.requests import (
    CancelDelayed,
    CountDelayed,
    DelayedView,
    FindDelayed,
    ListDelayed,
    MoveDelayed,
)
from goqueue.actors.front.session import BrokerSession
from goqueue.core.delays.duetimes import check_edges, moved_due
from goqueue.net.wire import delays as wire


async def list_delayed(session: BrokerSession, request: wire.ListDelayed) -> wire.DelayedEntries:
    """One at a time on a connection, as with descriptions: each reads messages from the log."""
    ref = await session.partition(request.topic, request.partition)
    async with session.describing:
        page = await ref.call(ListDelayed(request.first, request.count_max, request.finished))
    return wire.DelayedEntries(tuple(map(_entry, page.views)), page.pending)


async def find_delayed(session: BrokerSession, request: wire.FindDelayed) -> wire.DelayedEntries:
    ref = await session.partition(request.topic, request.partition)
    async with session.describing:
        page = await ref.call(FindDelayed(request.message_id, request.first, request.count_max))
    return wire.DelayedEntries(tuple(map(_entry, page.views)), page.pending)


def _entry(view: DelayedView) -> wire.DelayedEntry:
    return wire.DelayedEntry(
        view.offset,
        int(view.state),
        view.due,
        view.finished,
        view.delivered_at,
        int(view.priority),
        view.key,
        view.message_id,
    )


async def cancel_delayed(session: BrokerSession, request: wire.CancelDelayed) -> wire.DelayChanged:
    ref = await session.partition(request.topic, request.partition)
    return wire.DelayChanged(await ref.call(CancelDelayed(request.offset)))


async def move_delayed(session: BrokerSession, request: wire.MoveDelayed) -> wire.DelayChanged:
    ref = await session.partition(request.topic, request.partition)
    return wire.DelayChanged(await ref.call(MoveDelayed(request.offset, moved_due(request.due, request.delay))))


async def count_delayed(session: BrokerSession, request: wire.CountDelayed) -> wire.DelayedCounts:
    check_edges(request.edges)
    ref = await session.partition(request.topic, request.partition)
    async with session.describing:
        return wire.DelayedCounts(tuple(await ref.call(CountDelayed(request.edges))))


ANSWERED: dict[type[Any], Callable[[BrokerSession, Any], Any]] = {
    wire.ListDelayed: list_delayed,
    wire.FindDelayed: find_delayed,
    wire.CancelDelayed: cancel_delayed,
    wire.MoveDelayed: move_delayed,
    wire.CountDelayed: count_delayed,
}
