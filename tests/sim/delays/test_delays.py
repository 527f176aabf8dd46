"""Whole systems with delayed messages run as a test: many seeds keep every promise, and planted bugs are found."""

import os
import subprocess
import sys

import pytest

from goqueue.testing.determinism import run_deterministically
from tests.sim.delays.bugs import PLANTED_AMONG_DELAYS
from tests.sim.delays.world import DelayWorld
from tests.sim.seeking import seek

SEEDS_PER_BUG_MAX = 100
FOUND_FROM = {
    "answers-cancels-before-sync": 119,
    "fires-in-any-order": 211,
    "forgets-moves-at-rebuild": 4,
    "recalls-ids-of-cancelled": 41,
}
"""Where the search begins: with a seed that reaches it soon."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds") // 5))


def test_a_seed_keeps_every_promise_about_delays(seed: int) -> None:
    """G8"""
    run_deterministically(DelayWorld(seed).run, seed=seed)


@pytest.mark.parametrize("bug", sorted(PLANTED_AMONG_DELAYS))
def test_a_bug_planted_among_delays_is_found(bug: str) -> None:
    seek(bug, PLANTED_AMONG_DELAYS, FOUND_FROM.get(bug, 0), SEEDS_PER_BUG_MAX)


def simulate(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.sim", "--world", "delays", str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_a_seed_of_delays_takes_the_same_steps_in_every_process() -> None:
    first, second = simulate(1, "1"), simulate(1, "2")
    assert first == second
    assert "\ntrace " in first
