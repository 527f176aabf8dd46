"""Bugs planted in streams and in what becomes of members that come back. A world of groups must find each."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from goqueue.client.streaming import consumer
from goqueue.client.streaming.partition import StreamPartition
from goqueue.core.groups import rebalance
from goqueue.core.groups.decisions import MemberLeft
from goqueue.core.groups.ownership import Handover, Ownership
from goqueue.core.ledger import entries
from goqueue.core.ledger.ledger import Ending, Ledger
from goqueue.types import Offset
from tests.sim.clients.world import ClientWorld
from tests.sim.disk.bugs import replaced
from tests.sim.groups.bugs import Buggy, LedgerBug, SpeaksTooSoon


class AnswersCommitsBeforeJournal(SpeaksTooSoon):
    kind = entries.Committed


class CommitsWhatIsInWork(Buggy):
    """By itself, as soon as it is handed out."""

    def bug(self) -> AbstractContextManager[None]:
        class Hasty(StreamPartition):
            @property
            def handled(self) -> Offset | None:
                return self.position

        return replaced(consumer, "StreamPartition", Hasty)


class BeginsBehindWhatIsThere(Buggy):
    """A new owner passes over the message at which the one before it had stopped."""

    def bug(self) -> AbstractContextManager[None]:
        return _learns(lambda committed: committed + 1 if committed else 0)


class BeginsAnew(Buggy):
    """A new owner reads everything again."""

    def bug(self) -> AbstractContextManager[None]:
        return _learns(lambda _: 0)


def _learns(where: Callable[[Offset], Offset]) -> AbstractContextManager[None]:
    class Elsewhere(StreamPartition):
        def learn(self, committed: Offset, resets: int) -> bool:
            return super().learn(where(committed) if self.position is None else committed, resets)

    return replaced(consumer, "StreamPartition", Elsewhere)


class HandsStreamsOverAtOnce(Buggy):
    """The next owner begins while the one before has not let go."""

    def bug(self) -> AbstractContextManager[None]:
        class AtOnce(Ownership):
            def follow(self, _: Handover) -> None:
                super().follow(Handover.AT_ONCE)

        return replaced(rebalance, "Ownership", AtOnce)


class HandsOutWhatIsPaused(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        class NeverPaused(StreamPartition):
            @property
            def is_read(self) -> bool:
                return self.is_open and self.is_known and self.position is not None and not self.is_leaving

        return replaced(consumer, "StreamPartition", NeverPaused)


class KeepsWhatTheReplacedHeld(LedgerBug):
    """Its receipts are good until its leases end, and only then its messages come again."""

    class ledger_class(Ledger):  # noqa: N801
        def expire_member(self, _: str) -> list[Ending]:
            return []


class GivesBackWhatTheReplacedHeld(LedgerBug):
    """It comes at once, and as if nobody had seen it."""

    class ledger_class(Ledger):  # noqa: N801
        def expire_member(self, member: str) -> list[Any]:
            return self.release_member(0.0, member)


class KeepsNoPlaces(Buggy):
    """Whoever closes has left, whatever its id."""

    def bug(self) -> AbstractContextManager[None]:
        class Forgetful(rebalance.Group):
            def close(self, member_id: str, instance: int = 0) -> MemberLeft:
                return self.leave(member_id, instance)

        return replaced(rebalance, "Group", Forgetful)


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
