"""The states of a group, and how an event may leave them."""

from enum import Enum, auto


class State(Enum):
    EMPTY = auto()
    """Nobody is here; the settings are kept."""
    STABLE = auto()
    """Every partition that is read has its owner."""
    REBALANCING = auto()
    """Somebody has yet to let go."""


class Turn(Enum):
    """How things stand after an event."""

    EMPTIED = auto()
    SETTLED = auto()
    WAITING = auto()


TRANSITIONS: dict[State, dict[Turn, State]] = {
    State.EMPTY: {Turn.EMPTIED: State.EMPTY, Turn.SETTLED: State.STABLE},
    State.STABLE: {
        Turn.EMPTIED: State.EMPTY,
        Turn.SETTLED: State.STABLE,
        Turn.WAITING: State.REBALANCING,
    },
    State.REBALANCING: {
        Turn.EMPTIED: State.EMPTY,
        Turn.SETTLED: State.STABLE,
        Turn.WAITING: State.REBALANCING,
    },
}
"""The first member of a group waits for nobody, so from EMPTY there is no way to REBALANCING."""
