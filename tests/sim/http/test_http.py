"""Whole systems whose members and publishers speak HTTP run as a test: many seeds, and every planted bug found."""

import pytest

from goqueue.testing.determinism import run_deterministically
from tests.sim.http.bugs import PLANTED_OVER_HTTP
from tests.sim.http.world import HttpWorld
from tests.sim.seeking import seek

SEEDS_PER_BUG_MAX = 40
FOUND_FROM = {
    "beats-for-ghosts": 17,
    "polls-for-nobody": 1,
}
"""Where the search begins: with a seed that reaches it soon."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds") // 5))


def test_a_seed_keeps_every_promise_to_members_and_publishers_over_http(seed: int) -> None:
    """G1, G5, G6, G7, G8, G11"""
    run_deterministically(HttpWorld(seed).run, seed=seed)


@pytest.mark.parametrize("bug", sorted(PLANTED_OVER_HTTP))
def test_a_bug_planted_in_the_gateway_is_found(bug: str) -> None:
    seek(bug, PLANTED_OVER_HTTP, FOUND_FROM.get(bug, 0), SEEDS_PER_BUG_MAX)
