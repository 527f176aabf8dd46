"""The search for a planted bug: the first seeds from some on, until one of them meets it."""

from collections.abc import Mapping
from typing import Protocol

import pytest

from goqueue.nursery import errors_in
from goqueue.testing.determinism import run_deterministically
from tests.sim.disk.history import Violation


class World(Protocol):
    async def run(self) -> object: ...


class WorldOfSeed(Protocol):
    def __call__(self, seed: int, /) -> World: ...


def seek(bug: str, planted: Mapping[str, WorldOfSeed], first: int, seeds_max: int) -> None:
    """Fail unless one of so many seeds breaks a promise; any other error is the world's own."""
    for seed in range(first, first + seeds_max):
        try:
            run_deterministically(planted[bug](seed).run, seed=seed)
        except BaseException as error:
            if any(isinstance(fault, Violation) for fault in errors_in(error)):
                return
            raise
    pytest.fail(f"{bug}: not found in {seeds_max} seeds")
