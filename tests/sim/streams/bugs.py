"""Bugs planted in streams and in what becomes of members that come back. A world of groups must find each."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from goqueue.client.streaming.partition import StreamPartition
from goqueue.core.groups import rebalance
from goqueue.core.groups.ownership import Handover
from goqueue.core.ledger import entries
from goqueue.core.ledger.ledger import Ledger
from goqueue.types import Offset
from tests.sim.clients.world import ClientWorld
from tests.sim.disk.bugs import replaced
from tests.sim.groups.bugs import Buggy, SpeaksTooSoon


class AnswersCommitsBeforeJournal(SpeaksTooSoon):
    kind = entries.Committed


class CommitsWhatIsInWork(Buggy):
    """By itself, as soon as it is handed out."""

    def bug(self) -> AbstractContextManager[None]:
        return replaced(StreamPartition, "handled", property(lambda self: self.position))


class BeginsBehindWhatIsThere(Buggy):
    """A new owner passes over the message at which the one before it had stopped."""

    def bug(self) -> AbstractContextManager[None]:
        return _learns(lambda committed: committed + 1 if committed else 0)


class BeginsAnew(Buggy):
    """A new owner reads everything again."""

    def bug(self) -> AbstractContextManager[None]:
        return _learns(lambda _: 0)


def _learns(where: Any) -> AbstractContextManager[None]:
    before = StreamPartition.learn

    def learn(self: StreamPartition, committed: Offset, resets: int) -> bool:
        return before(self, where(committed) if self.position is None else committed, resets)

    return replaced(StreamPartition, "learn", learn)


class HandsStreamsOverAtOnce(Buggy):
    """The next owner begins while the one before has not let go."""

    def bug(self) -> AbstractContextManager[None]:
        return replaced(rebalance.Group, "_handover", property(lambda _: Handover.AT_ONCE))


class HandsOutWhatIsPaused(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        def is_read(self: StreamPartition) -> bool:
            return self.is_open and self.is_known and self.position is not None and not self.is_leaving

        return replaced(StreamPartition, "is_read", property(is_read))


class KeepsWhatTheReplacedHeld(Buggy):
    """Its receipts are good until its leases end, and only then its messages come again."""

    def bug(self) -> AbstractContextManager[None]:
        return replaced(Ledger, "expire_member", lambda *_: [])


class GivesBackWhatTheReplacedHeld(Buggy):
    """It comes at once, and as if nobody had seen it."""

    def bug(self) -> AbstractContextManager[None]:
        def expire_member(self: Ledger, member: str) -> Iterable[Any]:
            return self.release_member(0.0, member)

        return replaced(Ledger, "expire_member", expire_member)


class KeepsNoPlaces(Buggy):
    """Whoever closes has left, whatever its id."""

    def bug(self) -> AbstractContextManager[None]:
        return replaced(rebalance.Group, "close", rebalance.Group.leave)


PLANTED_AMONG_STREAMS: dict[str, type[ClientWorld]] = {
    "answers-commits-before-journal": AnswersCommitsBeforeJournal,
    "begins-anew": BeginsAnew,
    "begins-behind-what-is-there": BeginsBehindWhatIsThere,
    "commits-what-is-in-work": CommitsWhatIsInWork,
    "gives-back-what-the-replaced-held": GivesBackWhatTheReplacedHeld,
    "hands-out-what-is-paused": HandsOutWhatIsPaused,
    "hands-streams-over-at-once": HandsStreamsOverAtOnce,
    "keeps-no-places": KeepsNoPlaces,
    "keeps-what-the-replaced-held": KeepsWhatTheReplacedHeld,
}
