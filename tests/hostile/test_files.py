"""Every byte of a small data directory flipped, and every file of it cut at every length, in turn.

A run looks at some of them, spread over all files; `--seeds` says how many, and the long run looks at all.
"""

import pytest
from trio.testing import MockClock

from tests.hostile.shelf import Harm, Judge, all_harms, filled, provable_harms

SLICES = 4
HARMS_OF_A_SEED = 2
SEEDS_FOR_ALL = 1_000


def chosen(harms: list[Harm], seeds: int, part: int) -> list[Harm]:
    """As many as the seeds allow, each file in its share; the parts share nothing."""
    step = SLICES if seeds >= SEEDS_FOR_ALL else max(SLICES, SLICES * len(harms) // (seeds * HARMS_OF_A_SEED) | 1)
    return harms[part * step // SLICES :: step]


@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("killed", [False, True])
async def test_whatever_rots_the_broker_serves_the_rest_names_it_and_takes_new_messages(
    part: int, killed: bool, request: pytest.FixtureRequest, autojump_clock: MockClock
) -> None:
    """G1, G3, G13: or it refuses to start, where a newer format or a hidden topic may be what it cannot read."""
    disk = await filled(killed=killed)
    judge = await Judge.of(disk)
    harms = await provable_harms(disk) if killed else all_harms(disk)
    for harm in chosen(harms, int(request.config.getoption("--seeds")), part):
        try:
            await judge.try_out(harm)
        except BaseException as error:
            error.add_note(repr(harm))
            raise
