"""Whole systems run as a test: many seeds without a violation, and every planted bug found."""

import os
import subprocess
import sys

import pytest
import trio

from goqueue.testing.determinism import run_deterministically
from tests.sim.clients.bugs import PLANTED_AMONG_CLIENTS
from tests.sim.clients.world import ClientTally, ClientWorld
from tests.sim.disk.history import Violation
from tests.sim.seeking import seek
from tests.sim.shrinking import shrunk

SEEDS_PER_BUG_MAX = 100
FOUND_FROM = {
    "answers-before-sync": 92,
    "disorders-after-loss": 36,
    "repeats-under-new-sequence": 15,
    "takes-repeats-for-new": 12,
}
"""Where the search begins: with a seed that reaches it soon."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A whole system takes longer than its partitions: half as many seeds."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds") // 2))


def test_a_seed_keeps_every_promise_to_its_clients(seed: int) -> None:
    """G1, G3, G4, G11, G14, G15, G16"""
    run_deterministically(ClientWorld(seed).run, seed=seed)


@pytest.mark.parametrize("bug", sorted(PLANTED_AMONG_CLIENTS))
def test_a_planted_bug_is_found(bug: str) -> None:
    seek(bug, PLANTED_AMONG_CLIENTS, FOUND_FROM.get(bug, 0), SEEDS_PER_BUG_MAX)


class FailsByTwoFaults(ClientWorld):
    """A world in which faults 1 and 3 together are fatal, and no others."""

    async def run(self) -> ClientTally:
        await trio.lowlevel.checkpoint()
        if {fault.number for fault in self.plan.faults} >= {1, 3}:
            raise Violation("both at once")
        return self.tally


def seed_with_faults(count: int) -> int:
    return next(seed for seed in range(1_000) if len(ClientWorld(seed).plan.faults) == count)


def test_a_failing_seed_is_shrunk_to_the_faults_that_it_needs() -> None:
    plan = shrunk(FailsByTwoFaults, seed_with_faults(6))
    assert plan is not None
    assert [fault.number for fault in plan.faults] == [1, 3]


def test_a_sound_seed_is_not_shrunk() -> None:
    assert shrunk(FailsByTwoFaults, seed_with_faults(2)) is None


def simulate(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.sim", "--world", "clients", str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_a_seed_takes_the_same_steps_in_every_process() -> None:
    first, second = simulate(1, "1"), simulate(1, "2")
    assert first == second
    assert first.startswith("seed 1 commit ")
    assert "\ntrace " in first
