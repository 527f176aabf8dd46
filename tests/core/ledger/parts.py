"""What the model of a ledger is made of: messages, their states, and the slips that name deliveries."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.ledger.settlements import Action
from goqueue.core.offsetset import Run

Choose: TypeAlias = Callable[[Sequence[Any]], Any]
"""One of these. Who chooses may be Hypothesis, or dice."""

MEMBERS = ("ann", "bob")


class State(Enum):
    DONE = auto()
    IN_FLIGHT = auto()
    WAITING = auto()
    READY = auto()
    LEAVING = auto()
    DEPARTING = auto()
    DAMAGED = auto()


@dataclass
class Message:
    state: State
    attempt: int = 1
    lost: bool = False
    member: str = ""
    nonce: int = 0
    is_alone: bool = False
    counts: bool = True
    """Its delivery counts: the member has begun with it, or does not tell."""
    visibility: float = 0.0
    time: float = 0.0
    """The lease's deadline, or when the retry is due."""
    first_delivery: int = 0
    last_delivery: int = 0
    reason: str = ""
    repaired: State | None = None
    """Of a damaged one: what it is after a repair."""


@dataclass(frozen=True)
class Slip:
    """A receipt, as far as the ledger sees it."""

    nonce: int
    offset: int
    attempt: int


class Asked(NamedTuple):
    """A settlement, as a consumer asks for it."""

    nonce: int
    action: Action
    runs: AttemptRuns = ()
    delay: float | None = None
    reason: str = ""
    whole: int = 0
    to: Destination | None = None


def together(offsets: Iterable[int]) -> list[Run]:
    runs = [list(group) for _, group in groupby(enumerate(sorted(offsets)), lambda pair: pair[1] - pair[0])]
    return [Run(group[0][1], group[-1][1]) for group in runs]


def singles(runs: Iterable[AttemptRun]) -> list[tuple[int, int]]:
    return [(offset, attempt) for first, last, attempt in runs for offset in range(first, last + 1)]


def seldom(choose: Choose) -> bool:
    return bool(choose((False,) * 5 + (True,)))
