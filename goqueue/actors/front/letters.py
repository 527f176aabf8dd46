"""The requests of clients about dead letters."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from goqueue.actors.deadletters.requests import (
    CountDeadLetters,
    Decided,
    DismissDeadLetters,
    FindLetterDecisions,
    RedriveDeadLetters,
)
from goqueue.actors.front.session import BrokerSession
from goqueue.core.groups.redrive import LetterCounts, check_dismissal, check_redrive
from goqueue.core.names import check_publishable
from goqueue.net.wire import letters as wire
from goqueue.net.wire.errors import TooManyRequests
from goqueue.net.wire.fields import PROSE_SIZE_MAX


async def redrive(session: BrokerSession, request: wire.Redrive) -> wire.Redriven:
    check_redrive(
        request.topic, request.group, request.to, all_groups=request.all_groups, per_second=request.per_second
    )
    with _one_at_a_time(session):
        done = await session.broker.dead_letters.call(RedriveDeadLetters(*request))
    return wire.Redriven(*done[:4], done.why[:PROSE_SIZE_MAX])


async def dismiss(session: BrokerSession, request: wire.Dismiss) -> wire.Dismissed:
    check_dismissal(request.topic, request.group)
    with _one_at_a_time(session):
        done = await session.broker.dead_letters.call(DismissDeadLetters(*request))
    return wire.Dismissed(*done[:4], done.why[:PROSE_SIZE_MAX])


@contextmanager
def _one_at_a_time(session: BrokerSession) -> Iterator[None]:
    """A redrive may take long, so there is one at a time on a connection."""
    if session.is_redriving:
        raise TooManyRequests("a redrive is under way on this connection; wait for its answer")
    session.is_redriving = True
    try:
        yield
    finally:
        session.is_redriving = False


async def count_letters(session: BrokerSession, request: wire.CountLetters) -> wire.LettersCounted:
    """One at a time on a connection, as with descriptions: where a log has gaps, it is read."""
    check_publishable(request.topic)
    async with session.describing:
        found = await session.broker.dead_letters.call(CountDeadLetters(request.topic))
    return wire.LettersCounted(tuple(map(_count, found)))


def _count(counts: LetterCounts) -> wire.LetterCount:
    return wire.LetterCount(
        counts.waiting,
        counts.redriven,
        counts.dismissed,
        counts.redriven_at,
        counts.dismissed_at,
        counts.is_doubtful,
    )


async def find_decisions(session: BrokerSession, request: wire.FindDecisions) -> wire.LetterDecisions:
    check_publishable(request.topic)
    last = request.first + request.count_max - 1
    async with session.describing:
        asked = FindLetterDecisions(request.topic, request.partition, request.first, last)
        found = await session.broker.dead_letters.call(asked)
    return wire.LetterDecisions(tuple(map(_decision, found)))


def _decision(decided: Decided) -> wire.LetterDecision:
    (verdict, at, to, note), runs = decided
    return wire.LetterDecision(
        int(verdict),
        at,
        to and to.topic,
        to is not None and to.is_for_all,
        note,
        tuple(wire.OffsetRun(*run) for run in runs),
    )


ANSWERED: dict[type[Any], Callable[[BrokerSession, Any], Any]] = {
    wire.Redrive: redrive,
    wire.Dismiss: dismiss,
    wire.CountLetters: count_letters,
    wire.FindDecisions: find_decisions,
}
