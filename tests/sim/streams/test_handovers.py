"""Streams whose partitions change hands all the time run as a test: many seeds, and every planted bug found."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from goqueue.client.streaming import consumer
from goqueue.client.streaming.commits import Committing
from goqueue.client.streaming.partition import StreamPartition
from goqueue.testing.determinism import run_deterministically
from tests.sim.disk.bugs import replaced
from tests.sim.seeking import seek
from tests.sim.streams.handoverworld import HandoverWorld

SEEDS_PER_BUG_MAX = 20
MOVES_MIN = 5
"""Of a world, on average; a seed may have fewer."""


class ReleasesBeforeItsCommits(HandoverWorld):
    """A consumer lets go of a partition while a commit by hand is under way."""

    def bug(self) -> AbstractContextManager[None]:
        class Impatient(Committing):
            async def finish(self, streams: Iterable[StreamPartition], *, by_itself: bool, **_: Any) -> None:
                if by_itself:
                    await self.commit_handled(streams)

        return replaced(consumer, "Committing", Impatient)


class CommitsNothingAtTheRelease(HandoverWorld):
    """What auto-commit owes is not committed when the partition goes."""

    def bug(self) -> AbstractContextManager[None]:
        class Careless(Committing):
            async def finish(self, *_: Any, **__: Any) -> None:
                pass

        return replaced(consumer, "Committing", Careless)


PLANTED: dict[str, type[HandoverWorld]] = {
    "commits-nothing-at-the-release": CommitsNothingAtTheRelease,
    "releases-before-its-commits": ReleasesBeforeItsCommits,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds") // 10))


def test_no_message_goes_to_two_members_when_nothing_goes_wrong(seed: int) -> None:
    """G5, G10, §5"""
    moves_in(seed)


def test_partitions_change_hands_in_these_worlds() -> None:
    assert sum(map(moves_in, range(4))) >= 4 * MOVES_MIN


def moves_in(seed: int) -> int:
    world = HandoverWorld(seed)
    run_deterministically(world.run, seed=seed)
    return world.book.moves


@pytest.mark.parametrize("bug", sorted(PLANTED))
def test_a_bug_planted_in_handovers_is_found(bug: str) -> None:
    seek(bug, PLANTED, 0, SEEDS_PER_BUG_MAX)
