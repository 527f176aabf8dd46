"""Whether what is left of a partition says that it was lost, or that it was never made."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.topics.loss import OFFSET_MAX, RESTART_GAP, Remains, loss_of, restart_of
from goqueue.errors import InvalidConfig

NOTHING = Remains()
NEW = Remains(has_folder=True, has_identity=True)
STARTED = replace(NEW, has_point=True, is_point_sound=True)
remains = st.builds(Remains, *[st.booleans()] * 6, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))


@pytest.mark.parametrize(
    ("left", "is_signed", "is_lost"),
    [
        (NOTHING, True, True),
        (NOTHING, False, False),
        (replace(NOTHING, named=7), False, True),
        (replace(NOTHING, has_folder=True), True, True),
        (replace(NOTHING, has_folder=True), False, False),
        (NEW, True, False),
        (NEW, False, False),
        (replace(NEW, named=7), True, True),
        (replace(NEW, has_companions=True), True, True),
        (STARTED, True, False),
        (replace(STARTED, named=7), True, False),
        (replace(STARTED, recovery_point=5), True, True),
        (replace(STARTED, recovery_point=5, log_start=5), True, False),
        (replace(STARTED, is_point_sound=False), True, False),
        (replace(STARTED, is_point_sound=False, has_companions=True), True, False),
        (replace(STARTED, is_point_sound=False, named=7), True, True),
        (replace(STARTED, has_identity=False), True, False),
    ],
)
def test_a_loss_is_told_from_a_partition_that_was_never_made(left: Remains, is_signed: bool, is_lost: bool) -> None:
    """G3, G13"""
    assert (loss_of(left, is_signed=is_signed) is not None) == is_lost


@given(remains, st.booleans())
def test_a_partition_with_segments_is_never_lost(left: Remains, is_signed: bool) -> None:
    assert loss_of(replace(left, has_segments=True), is_signed=is_signed) is None


@given(remains)
def test_a_folder_that_was_never_signed_and_left_no_trace_is_made_anew(left: Remains) -> None:
    traceless = replace(
        left, has_companions=False, has_point=False, is_point_sound=False, log_start=0, recovery_point=0, named=0
    )
    assert loss_of(traceless, is_signed=False) is None


def test_a_restart_lies_behind_everything_that_was_named() -> None:
    """G3"""
    assert restart_of(4_711) == 4_711 + RESTART_GAP
    with pytest.raises(InvalidConfig, match="delete the topic"):
        restart_of(OFFSET_MAX + 1)
