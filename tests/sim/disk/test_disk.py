"""The simulator run as a test: many seeds without a violation, and every planted bug found."""

import os
import struct
import subprocess
import sys

import pytest

from goqueue.nursery import errors_in
from goqueue.testing.determinism import run_deterministically
from tests.sim.disk.bugs import PLANTED
from tests.sim.disk.history import Violation
from tests.sim.disk.world import World

SEEDS_PER_BUG_MAX = 150
FOUND_FROM = {
    "answers-before-sync": 5,
    "cuts-rot": 5,
    "keeps-torn-tails": 8,
    "shows-what-is-not-durable": 6,
    "stops-without-closing": 5,
}
"""Where the search begins: with a seed that reaches it soon."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds")))


def test_a_seed_keeps_every_promise(seed: int) -> None:
    """G1, G2, G3, G13, G15"""
    run_deterministically(World(seed).run, seed=seed)


@pytest.mark.parametrize("bug", sorted(PLANTED))
def test_a_planted_bug_is_found(bug: str) -> None:
    first = FOUND_FROM.get(bug, 0)
    for seed in range(first, first + SEEDS_PER_BUG_MAX):
        try:
            run_deterministically(PLANTED[bug](seed).run, seed=seed)
        except BaseException as error:
            if any(isinstance(fault, Violation | struct.error) for fault in errors_in(error)):
                return  # a promise is broken, or what is in the log cannot even be decoded
            raise
    pytest.fail(f"{bug}: not found in {SEEDS_PER_BUG_MAX} seeds")


def simulate(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.sim", str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_a_seed_takes_the_same_steps_in_every_process() -> None:
    first, second = simulate(47, "1"), simulate(47, "2")
    assert first == second
    assert first.startswith("seed 47 commit ")
    assert "\ntrace " in first
