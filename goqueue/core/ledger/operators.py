"""What is decided beside deliveries and settlements: about damage, and about dead letters.

A range that the log cannot read is noted, delivered after a repair, or given up. A dead letter, in the ledger of
the group that redrives them, waits; then it is sent back or dismissed:

    waiting ──► taken and rejected with a destination, transferred ──► redriven
       │                                                                 ▲
       └─────► taken and dismissed ──► dismissed ── sent again ──────────┘

A letter that is sent again is done until then: it leaves at once, without being taken, so that no crash finds it
waiting. Until its transfer is confirmed the earlier decision stands.

As everywhere in a ledger, to decide changes nothing: the entry is journaled, then applied.
"""

from collections.abc import Iterable, Iterator

from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns
from goqueue.core.ledger.deadletters import REDRIVEN_SOMETIME, Decision, Destination
from goqueue.core.ledger.entries import Damaged, LaneOffsets, LettersDismissed, Repaired, SentAgain, Skipped
from goqueue.core.ledger.settlements import Settlement
from goqueue.core.ledger.state import LedgerState
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.types import Microseconds, Offset

NOTE_LENGTH_MAX = 1_000


class LedgerDamage:
    def __init__(self, state: LedgerState) -> None:
        self._state = state

    def __bool__(self) -> bool:
        return bool(self._state.damages)

    def __len__(self) -> int:
        return len(self._state.damages)

    def runs(self) -> list[Run]:
        """The damaged runs, in order."""
        return list(self._state.damages.offsets.runs())

    @property
    def set_aside(self) -> OffsetSet:
        """Offsets that are or were damaged, at or behind the position of some lane: no lane delivers them when it
        gets there."""
        return self._state.lanes.set_aside

    def note(self, now: float, first: Offset, last: Offset, path: str) -> Damaged | None:
        """The log cannot read this range. Messages in flight stay so: their consumer has them. Messages that wait
        for their retry wait on, and are looked at when it is due. None when the rest is done, or known to be
        damaged."""
        state = self._state
        state.retries.move_on(now)
        found = state.lanes.unseen(first, last)
        held = [Run(run.first, run.last) for run in state.retries.ready.runs()]
        held += [Run(run.first, run.last) for run in state.dead_letters.leaving()]
        inside = ((max(first, run.first), min(last, run.last)) for run in held)
        found.update(OffsetSet(run for run in inside if run[0] <= run[1]))
        return Damaged(first, last, path, found) if found else None

    def repair(self, first: Offset, last: Offset, lanes: Iterable[LaneOffsets]) -> Repaired | None:
        """The log can read this range again; `lanes` are the messages for the group in it."""
        damages = self._state.damages
        common = [LaneOffsets(lane, damages.fresh.common(offsets)) for lane, offsets in lanes]
        found = tuple(each for each in common if each.offsets)
        return Repaired(first, last, found) if damages.count(first, last) else None

    def count(self, first: Offset, last: Offset) -> int:
        return self._state.damages.count(first, last)

    def skip(self, first: Offset, last: Offset, *, letters: bool = False) -> Skipped | None:
        """Give up the damaged messages of this range, and with `letters` its dead letters that are under way; None
        when there are none."""
        in_transfer = self._state.dead_letters.count_in_transfer(first, last) if letters else 0
        unacked = self.count(first, last) + in_transfer
        return Skipped(first, last, unacked, letters) if unacked else None


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
