"""The request for the health of the broker: facts from boards, and the one rule that judges them."""

from collections.abc import Callable
from typing import Any

import trio

from goqueue.actors.front.session import BrokerSession
from goqueue.actors.topics.board import topics_board
from goqueue.core.health import HealthFacts, judge
from goqueue.core.log.admission import disk_needed
from goqueue.net.wire import messages as wire
from goqueue.net.wire.fields import PROSE_SIZE_MAX
from goqueue.storage.slices import Slices


async def check_health(session: BrokerSession, request: wire.CheckHealth) -> wire.HealthReport:
    """One at a time on a connection, as with other looks at all partitions."""
    async with session.describing:
        health = judge(await _facts(session, Slices()), for_publish=request.for_publish)
    reasons = (
        wire.HealthReasonReport(each.code, _short(each.message), _short(each.cure)) for each in health.degraded
    )
    return wire.HealthReport(health.status, tuple(reasons))


async def _facts(session: BrokerSession, slices: Slices) -> HealthFacts:
    broker, statistics = session.broker, session.statistics
    topics = await topics_board(broker.topics)
    unavailable, lost = topics.impaired()
    space, stalls = statistics.disk_space(), statistics.stalls
    return HealthFacts(
        disk_free=space.free,
        disk_needed=disk_needed(space.total, least=broker.disk_free_min),
        is_draining=broker.leaving.is_set(),
        lost=lost,
        unavailable=unavailable,
        damaged=await statistics.damaged(slices),
        stall_seconds=0.0 if stalls is None else stalls.longest_lately(trio.current_time()),
        dead_letters=await broker.waiting_letters.count(topics, broker.environment.clock, slices),
    )


def _short(text: str) -> str:
    return text[:PROSE_SIZE_MAX]


ANSWERED: dict[type[Any], Callable[[BrokerSession, Any], Any]] = {wire.CheckHealth: check_health}
