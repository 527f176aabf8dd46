"""Dead letters in the ledger of the group that redrives them: what was decided, and what is decided next.

    waiting ──► taken and rejected with a destination, transferred ──► redriven
       │                                                                 ▲
       └─────► taken and dismissed ──► dismissed ── sent again ──────────┘

A letter that is sent again is done until then: it leaves at once, without being taken, so that no crash finds it
waiting. Until its transfer is confirmed the earlier decision stands.

As everywhere in a ledger, to decide changes nothing: the entry is journaled, then applied.
"""

from collections.abc import Iterable, Iterator

from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.ledger.decisions import REDRIVEN_SOMETIME, Decision
from goqueue.core.ledger.entries import LettersDismissed, SentAgain
from goqueue.core.ledger.settlements import Settlement
from goqueue.core.ledger.state import LedgerState
from goqueue.core.offsetset import OffsetSet
from goqueue.types import Microseconds, Offset

NOTE_LENGTH_MAX = 1_000


class LedgerLetters:
    def __init__(self, state: LedgerState) -> None:
        self._state = state

    def decided(self, first: Offset, last: Offset) -> Iterator[tuple[Decision, OffsetSet]]:
        """The decided offsets of this range, by decision. Offsets that are no messages may be among them."""
        within, rest = OffsetSet([(first, last)] if first <= last else ()), self._state.lanes.done(first, last)
        for decision, letters in self._state.decisions.items():
            found = letters.common(within)
            if found:
                rest.remove(found)
                yield decision, found
        if rest:
            yield REDRIVEN_SOMETIME, rest

    def dismiss(
        self, now: float, nonce: int, runs: Iterable[AttemptRun], at: Microseconds, note: str
    ) -> tuple[LettersDismissed | None, AttemptRuns]:
        """The entry, if there is something to do, and the stale ones."""
        good, stale = self._state.deliveries.judge(now, nonce, runs, Settlement.ACKED)
        return (LettersDismissed(nonce, good, at, note[:NOTE_LENGTH_MAX]) if good else None), stale

    def send_again(self, letters: OffsetSet, to: Destination) -> SentAgain | None:
        """Those of these letters that were decided upon, and do not leave already."""
        bounds = letters.bounds
        if bounds is None:
            return None
        found = letters.common(self._state.lanes.done(*bounds))
        return SentAgain(found, to, "redriven again") if found else None
