"""Settlements against a dictionary: whatever room they take, they say the same."""

from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.ledger.attempts import AttemptRun, Attempts, Standing
from goqueue.core.ledger.settlements import FEW, SETTLED_REMEMBERED, SettledDeliveries, Settlement, Settlements
from goqueue.core.offsetset import Run

offsets = st.dictionaries(st.integers(0, 60), st.integers(1, 3), max_size=40)
"""Which messages, and on which delivery each is."""
steps = st.lists(st.tuples(st.sampled_from(Settlement), offsets), max_size=2 * FEW)


def attempts(numbers: dict[int, int], *, lost: bool = False) -> Attempts:
    made = Attempts()
    for offset, attempt in numbers.items():
        made.add(Standing(attempt, lost), Run(offset, offset))
    return made


Model: TypeAlias = dict[Settlement, set[AttemptRun]]


def settled_by(noted: list[tuple[Settlement, dict[int, int]]]) -> tuple[Settlements, Model]:
    """A message is settled once: what comes again of it is left out."""
    settlements, model, seen = Settlements(), {kind: set[AttemptRun]() for kind in Settlement}, set[int]()
    for number, (kind, numbers) in enumerate(noted):
        fresh = {offset: attempt for offset, attempt in numbers.items() if offset not in seen}
        seen |= fresh.keys()
        if number % 3:
            settlements.note(kind, attempts(fresh, lost=bool(number % 2)))
        else:
            for offset, attempt in fresh.items():
                settlements.note_run(kind, AttemptRun(offset, offset, attempt))
        model[kind] |= {AttemptRun(offset, offset, attempt) for offset, attempt in fresh.items()}
    return settlements, model


def singles(some: Attempts) -> set[AttemptRun]:
    return {AttemptRun(at, at, run.attempt) for run in some.runs() for at in range(run.first, run.last + 1)}


def said(settlements: Settlements) -> Model:
    return {kind: singles(settlements.of(kind)) for kind in Settlement}


@given(steps)
def test_what_was_settled_is_known_while_under_way_when_closed_and_from_a_snapshot(
    noted: list[tuple[Settlement, dict[int, int]]],
) -> None:
    settlements, model = settled_by(noted)
    assert said(settlements) == model
    assert bool(settlements) == any(model.values())
    closed = SettledDeliveries()
    closed.remember(7, settlements)
    remembered = closed.get(7)
    assert remembered is not None
    assert said(remembered) == model
    plain = settlements.of(Settlement.ACKED).to_plain(), settlements.others_to_plain()
    assert said(Settlements.from_plain(*plain)) == model
    assert (remembered.of(Settlement.ACKED).to_plain(), remembered.others_to_plain()) == plain


def test_the_newest_deliveries_are_remembered() -> None:
    closed = SettledDeliveries()
    for nonce in range(SETTLED_REMEMBERED + 3):
        closed.remember(nonce, settled_by([(Settlement.ACKED, {nonce: 1})])[0])
    assert [nonce for nonce, _ in closed.items()] == list(range(3, SETTLED_REMEMBERED + 3))
    assert 2 not in closed
    assert closed.get(2) is None


def test_a_message_settled_by_itself_a_thousand_times_over_does_not_make_a_thousand_parts() -> None:
    settlements, _ = settled_by([(Settlement.ACKED, {offset: 1}) for offset in range(1_000)])
    assert list(settlements.of(Settlement.ACKED).runs()) == [AttemptRun(0, 999, 1)]
    assert len(list(settlements.runs())) <= FEW
