"""Whole systems with consumer groups run as a test: many seeds without a violation, and every planted bug found."""

import os
import subprocess
import sys

import pytest

from goqueue.testing.determinism import run_deterministically
from tests.sim.groups.bugs import PLANTED_AMONG_GROUPS
from tests.sim.groups.lanebugs import PLANTED_AMONG_LANES
from tests.sim.groups.world import GroupWorld
from tests.sim.seeking import seek
from tests.sim.streams.bugs import PLANTED_AMONG_STREAMS

PLANTED = {**PLANTED_AMONG_GROUPS, **PLANTED_AMONG_LANES, **PLANTED_AMONG_STREAMS}
SEEDS_PER_BUG_MAX = 40
FOUND_FROM = {
    "accepts-stale-receipts": 1,
    "adopts-nobody": 34,
    "answers-acks-before-journal": 7,
    "answers-commits-before-journal": 15,
    "begins-anew": 11,
    "begins-behind-what-is-there": 11,
    "buries-without-sequence": 39,
    "commits-what-is-in-work": 17,
    "delivers-once-too-often": 5,
    "ends-leases-early": 163,
    "fails-behind-the-journal": 37,
    "forgets-delays": 40,
    "forgets-keys-at-restart": 31,
    "forgets-lanes-at-restart": 58,
    "forgets-what-is-given-back": 1,
    "forgets-what-was-claimed": 88,
    "gives-back-what-the-replaced-held": 33,
    "hands-out-backwards": 7,
    "hands-out-before-journal": 33,
    "hands-out-what-is-paused": 63,
    "hands-streams-over-at-once": 126,
    "has-one-cursor-for-all-lanes": 5,
    "ignores-keys": 0,
    "keeps-no-places": 329,
    "keeps-what-the-replaced-held": 17,
    "loses-what-expires": 7,
    "never-delivers-alone": 16,
    "passes-what-was-nacked": 16,
    "promises-partitions-twice": 0,
    "refuses-repeated-acks": 5,
    "remembers-only-acks": 250,
    "removes-before-acks-are-durable": 41,
    "removes-one-segment-too-many": 24,
    "skips-what-is-damaged": 271,
}
"""Where the search begins: with a seed that reaches it soon."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each message is consumed by several groups, and comes again: fewer seeds than for clients alone."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds") * 2 // 5))


def test_a_seed_keeps_every_promise_to_its_groups(seed: int) -> None:
    """G4, G5, G6, G7, G10, with priorities of every kind"""
    run_deterministically(GroupWorld(seed).run, seed=seed)


@pytest.mark.parametrize("bug", sorted(PLANTED))
def test_a_bug_planted_among_groups_is_found(bug: str) -> None:
    seek(bug, PLANTED, FOUND_FROM.get(bug, 0), SEEDS_PER_BUG_MAX)


def simulate(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.sim", "--world", "groups", str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_a_seed_of_groups_takes_the_same_steps_in_every_process() -> None:
    first, second = simulate(11, "1"), simulate(11, "2")
    assert first == second
    assert "\ntrace " in first
