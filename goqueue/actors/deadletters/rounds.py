"""One redrive or dismissal: what it chooses, how many, and how far it is."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from goqueue.actors.deadletters.carrier import BYTES_MAX, MESSAGES_MAX
from goqueue.actors.delivery.requests import Take, Taken
from goqueue.core.groups.deadletter import Story, one_record
from goqueue.core.groups.redrive import LetterCounts, Passed, PassedLetters
from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.names import REDRIVE
from goqueue.core.offsetset import OffsetSet
from goqueue.core.slices.picking import picked_records
from goqueue.types import Buffer, Microseconds, Offset

MEMBER, GENERATION = "redrive", 1
VISIBILITY_SECONDS = 3_600.0
"""The lease of dead letters that were not chosen. When they are delivered again after it, they are not chosen."""


class ChoosesLetters(Protocol):
    def judge(self, offset: Offset, story: Story | None) -> Passed | None: ...


@dataclass(slots=True)
class DecisionRound:
    choice: ChoosesLetters
    at: Microseconds
    """When it began. All its letters are decided then."""
    messages_max: int | None
    is_dry: bool
    per_second: int | None = None
    destination: Destination | None = None
    """None: a dismissal."""
    note_text: str = ""
    takes_decided: bool = False
    passed: PassedLetters = field(default_factory=PassedLetters)
    count: int = 0
    _waited: int = 0
    """Those of `count` that waited before."""

    @property
    def wants_more(self) -> bool:
        return self.messages_max is None or self.count < self.messages_max

    @property
    def _batch_max(self) -> int:
        return min(MESSAGES_MAX, self.per_second or MESSAGES_MAX)

    def take(self) -> Take:
        return Take(REDRIVE, MEMBER, GENERATION, self._batch_max, BYTES_MAX, VISIBILITY_SECONDS, is_busy=False)

    def note(self, count: int, *, were_waiting: bool) -> None:
        self.count += count
        self._waited += count * were_waiting

    def foreseen(self, counts: LetterCounts) -> LetterCounts:
        """What it would be after a dry run."""
        return replace(counts, waiting=counts.waiting - self._waited) if self.is_dry else counts

    def choose(self, taken: Taken, end: Offset) -> tuple[AttemptRun, ...]:
        attempts = {offset: run.attempt for run in taken.all_runs for offset in range(run.first, run.last + 1)}
        wanted = OffsetSet.of(offset for offset in attempts if offset < end)
        chosen = islice(self._fitting(taken.data, wanted), self._room(len(attempts)))
        return tuple(AttemptRun(offset, offset, attempts[offset]) for offset in chosen)

    def choose_decided(self, data: Buffer, decided: OffsetSet) -> Iterator[OffsetSet]:
        """In portions. The count is to be noted before the next one is asked for."""
        fitting = self._fitting(data, decided)
        while chosen := OffsetSet.of(islice(fitting, self._room(self._batch_max))):
            yield chosen

    def _room(self, most: int) -> int:
        return most if self.messages_max is None else min(most, self.messages_max - self.count)

    def _fitting(self, data: Buffer, wanted: OffsetSet) -> Iterator[Offset]:
        for offset, record in picked_records(data, wanted):
            story = Story.from_headers(one_record(record).headers)
            why = self.choice.judge(offset, story)
            if why is None:
                yield offset
            else:
                self.passed.note(why, story)
