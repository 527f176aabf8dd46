"""What the registry was asked and what it showed, and what follows from it for versions, ids and messages.

One registrar changes a subject, one change after the other, and asks until it is answered. So a subject has a list
of states. A state may hold from the moment at which the change to it was asked for until the next one was answered.
Once somebody has seen it, no earlier one may be seen. What was seen and what became of messages is judged at the
end, when every change was answered.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

import trio

from tests.sim.clients.history import ClientHistory
from tests.sim.disk.history import Violation


@dataclass(frozen=True, slots=True)
class Range:
    """A schema of messages with a number `n`; the title makes others of it that permit the same."""

    low: int
    high: int
    title: str

    @property
    def text(self) -> str:
        number = f'{{"type":"integer","minimum":{self.low},"maximum":{self.high}}}'
        return f'{{"title":"{self.title}","type":"object","properties":{{"n":{number}}},"required":["n"]}}'

    def permits(self, number: int) -> bool:
        return self.low <= number <= self.high

    def reads(self, other: "Range") -> bool:
        return self.low <= other.low and other.high <= self.high


@dataclass(frozen=True, slots=True)
class Known:
    """A version of a subject."""

    id: int
    schema: Range
    is_deleted: bool = False


@dataclass(slots=True)
class State:
    versions: Mapping[int, Known]
    since: float
    until: float = inf

    def may_hold(self, begin: float, end: float) -> bool:
        return self.since <= end and begin <= self.until

    @property
    def live(self) -> dict[int, Known]:
        return {number: each for number, each in self.versions.items() if not each.is_deleted}

    def permits(self, number: int, schema_id: int | None) -> bool:
        live = self.live
        if not live:
            return True
        if schema_id is None:
            return live[max(live)].schema.permits(number)
        named = [each for each in live.values() if each.id == schema_id]
        return bool(named) and named[-1].schema.permits(number)


@dataclass(frozen=True, slots=True)
class Look:
    begin: float
    end: float
    versions: dict[int, tuple[int, str, bool]]
    """Id, text and whether it is deleted."""


@dataclass(slots=True)
class SubjectHistory:
    name: str
    states: list[State] = field(default_factory=lambda: [State({}, 0.0)])
    looks: list[Look] = field(default_factory=list)
    _given: dict[int, int] = field(default_factory=dict)
    """The id of every version that was ever given."""

    @property
    def now(self) -> State:
        return self.states[-1]

    def change(self, versions: Mapping[int, Known], asked: float) -> None:
        """The change was answered."""
        self.now.until = trio.current_time()
        self.states.append(State(versions, asked))

    def note_version(self, number: int, schema_id: int) -> None:
        if number in self._given:
            raise Violation(f"version {number} of {self.name} was given again")
        if self._given and number < max(self._given):
            raise Violation(f"version {number} of {self.name} comes after {max(self._given)}")
        self._given[number] = schema_id

    def between(self, begin: float, end: float) -> Iterator[State]:
        return (state for state in self.states if state.may_hold(begin, end))

    def check_looks(self) -> None:
        """Each shows a state that may have held, and none before one that was seen earlier."""
        seen: list[tuple[float, int]] = []
        for look in sorted(self.looks, key=lambda each: each.end):
            lowest = max((place for end, place in seen if end < look.begin), default=0)
            fitting = [place for place, state in enumerate(self.states) if self._fits(look, state)]
            later = [place for place in fitting if place >= lowest]
            if not later:
                raise Violation(
                    f"{self.name} showed {look.versions} at {look.begin:.3f} to {look.end:.3f}; state {lowest} was "
                    f"seen before, and the states are {self.states}"
                )
            seen.append((look.end, later[0]))

    @staticmethod
    def _fits(look: Look, state: State) -> bool:
        shown = {number: (each.id, each.schema.text, each.is_deleted) for number, each in state.versions.items()}
        return state.may_hold(look.begin, look.end) and shown == look.versions


@dataclass(frozen=True, slots=True)
class Attempt:
    """A message that was sent, and what its schema makes of it."""

    topic: str
    number: int
    schema_id: int | None
    begin: float


@dataclass(slots=True)
class SchemaHistory(ClientHistory):
    switches: dict[str, str] = field(default_factory=dict)
    """`schema_validation` of each topic."""
    subjects: dict[str, SubjectHistory] = field(default_factory=dict)
    attempts: dict[bytes, Attempt] = field(default_factory=dict)
    accepted_by: dict[bytes, float] = field(default_factory=dict)
    """When a message was known to be accepted: confirmed, or seen."""
    refused_at: dict[bytes, float] = field(default_factory=dict)
    _ids: dict[int, str] = field(default_factory=dict)
    """The text of every id that was ever given."""

    def note_id(self, schema_id: int, text: str) -> None:
        if self._ids.setdefault(schema_id, text) != text:
            raise Violation(f"id {schema_id} was given to {self._ids[schema_id]}, and is given to {text}")

    def note_accepted(self, value: bytes) -> None:
        self.accepted_by.setdefault(value, trio.current_time())

    def note_refused(self, value: bytes) -> None:
        self.refused_at[value] = trio.current_time()

    def see(self, message: object) -> None:
        ClientHistory.see(self, message)  # type: ignore[arg-type]
        self.note_accepted(message.value)  # type: ignore[attr-defined]

    def check_schemas(self) -> None:
        """When nothing is changed any more."""
        for subject in self.subjects.values():
            subject.check_looks()
        for value, attempt in self.attempts.items():
            self._check_message(value, attempt)

    def _check_message(self, value: bytes, attempt: Attempt) -> None:
        holds = self.switches[attempt.topic] == "on"
        if value in self.accepted_by and holds:
            verdicts = self._verdicts(attempt, self.accepted_by[value])
            if True not in verdicts:
                raise Violation(f"G16: {value[:40]!r} ({attempt}) is accepted, and no schema in force permits it")
        if value in self.refused_at and (not holds or False not in self._verdicts(attempt, self.refused_at[value])):
            raise Violation(f"G16: {value[:40]!r} ({attempt}) is refused, and every schema in force permits it")

    def _verdicts(self, attempt: Attempt, end: float) -> set[bool]:
        subject = self.subjects[attempt.topic]
        return {each.permits(attempt.number, attempt.schema_id) for each in subject.between(attempt.begin, end)}
