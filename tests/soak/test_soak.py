"""Mixed load for a quarter of an hour (`--soak-minutes`): memory, descriptors, files and stalls are flat.

Without the option the same program does a few rounds of everything, so that it cannot rot. That says nothing about
growth.
"""

from pathlib import Path

import pytest

from tests.soak.flatness import ALLOWANCES, Sample, growths, table
from tests.soak.soak import soak

KINDS = 8
FEW = 3


def test_a_broker_under_mixed_load_stays_as_it_is(tmp_path: Path, soak_minutes: float) -> None:
    outcome = soak(tmp_path, 60 * soak_minutes) if soak_minutes else soak(tmp_path, 120, rounds_max=FEW)
    print(f"\n{table(outcome.samples)}\nrounds: {dict(outcome.rounds)}")
    assert len(outcome.rounds) == KINDS
    assert min(outcome.rounds.values()) >= FEW
    assert outcome.restarts == 0
    if soak_minutes:
        found = growths(outcome.samples, 60 * soak_minutes)
        print("\n".join(map(str, found)))
        assert [str(each) for each in found if not each.is_flat] == []


def samples_of(**growing: float) -> list[Sample]:
    """For 900 seconds; each figure grows by so much in a second, from 100 on."""
    names = list(ALLOWANCES)
    return [
        Sample(second, *(100 + growing.get(name, 0.0) * second for name in names)) for second in range(0, 900, 15)
    ]


def test_steady_figures_are_flat() -> None:
    assert all(each.is_flat for each in growths(samples_of(), 900))


@pytest.mark.parametrize("name", ALLOWANCES)
def test_a_figure_that_grows_is_named(name: str) -> None:
    grown = [each for each in growths(samples_of(**{name: 0.4}), 900) if not each.is_flat]
    assert [each.name for each in grown] == [name]
    assert "GROWS" in str(grown[0])


def test_the_start_does_not_count() -> None:
    """Caches fill during the first three minutes."""
    samples = [each._replace(memory_mib=20.0) if each.second < 180 else each for each in samples_of()]
    assert all(each.is_flat for each in growths(samples, 900))


def test_growth_towards_the_end_is_seen_though_the_medians_are_equal() -> None:
    samples = [each._replace(files=100 + max(0, each.second - 700) * 2) for each in samples_of()]
    assert [each.name for each in growths(samples, 900) if not each.is_flat] == ["files"]


def test_too_few_samples_prove_nothing() -> None:
    with pytest.raises(ValueError, match="8 are needed"):
        growths(samples_of()[:9], 900)


def test_the_table_has_a_row_for_each_of_some_samples() -> None:
    assert len(table(samples_of(), rows_max=10).splitlines()) == 11
