"""Hostile frames at the sessions of both ends. `python -m tests.hostile SEED` replays one."""

import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from goqueue.net.wire.kinds import BODIES
from tests.hostile.frames import WAYS, frames_of
from tests.hostile.sessions import harass_client, harass_server

SEEDS_OF_ONE = 1
"""Seeds of frames for each seed of the simulator."""


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("harass", [harass_server, harass_client])
def test_a_session_survives_whatever_comes_and_takes_no_more_memory_than_the_frames_are_long(
    harass: Callable[[int], None], request: pytest.FixtureRequest
) -> None:
    """G14: never raises, moves as its table says, holds no more than its limits allow."""
    for seed in range(SEEDS_OF_ONE * int(request.config.getoption("--seeds"))):
        try:
            harass(seed)
        except BaseException as error:
            error.add_note(f"replay it with: python -m tests.hostile {seed}")
            raise


def test_a_seed_gives_the_same_frames_again() -> None:
    assert frames_of(3, 50) == frames_of(3, 50) != frames_of(4, 50)


def kind_in(frame: bytes) -> int:
    """Numbers above 127 have a byte before them."""
    return frame[2] if frame[1] == 0xCC else frame[1]


def test_frames_of_every_kind_and_made_in_every_way_are_among_them() -> None:
    frames = set(frames_of(1, 1_500))
    assert {kind_in(frame) for frame in frames if frame[:1] == b"\x93" and len(frame) > 2} >= {*map(int, BODIES)}
    assert len(WAYS) == 13
