"""Whole systems with a schema registry run as a test: many seeds, and every planted bug found."""

import pytest

from goqueue.testing.determinism import run_deterministically
from tests.sim.schemas.bugs import PLANTED_AMONG_SCHEMAS
from tests.sim.schemas.world import SchemaWorld
from tests.sim.seeking import seek

SEEDS_PER_BUG_MAX = 40


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds") // 2))


def test_a_seed_gives_no_number_again_and_accepts_what_the_schema_permits(seed: int) -> None:
    """G1, G11, G14, G16"""
    run_deterministically(SchemaWorld(seed).run, seed=seed)


@pytest.mark.parametrize("bug", sorted(PLANTED_AMONG_SCHEMAS))
def test_a_bug_planted_in_the_registry_is_found(bug: str) -> None:
    seek(bug, PLANTED_AMONG_SCHEMAS, 0, SEEDS_PER_BUG_MAX)
