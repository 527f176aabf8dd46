"""Whole systems with workers run as a test: what counts as a delivery, over many seeds, and planted bugs."""

import pytest

from goqueue.testing.determinism import run_deterministically
from tests.sim.seeking import seek
from tests.sim.workers.bugs import PLANTED_AMONG_WORKERS
from tests.sim.workers.world import WorkerWorld

SEEDS_PER_BUG_MAX = 40
FOUND_FROM = {
    "counts-nothing": 78,
    "counts-what-is-held-ahead": 5,
    "forgets-acks-at-close": 7,
    "lets-leases-end-ahead": 70,
}
"""Where the search begins: with a seed that reaches it soon."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds") // 5))


def test_a_seed_counts_what_handlers_have_begun_and_nothing_else(seed: int) -> None:
    """G5, G6, G7, and what counts as a delivery"""
    run_deterministically(WorkerWorld(seed).run, seed=seed)


@pytest.mark.parametrize("bug", sorted(PLANTED_AMONG_WORKERS))
def test_a_bug_planted_among_workers_is_found(bug: str) -> None:
    seek(bug, PLANTED_AMONG_WORKERS, FOUND_FROM.get(bug, 0), SEEDS_PER_BUG_MAX)
