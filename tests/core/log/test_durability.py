"""When to sync and when to checkpoint."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.log.durability import (
    CHECKPOINT_SECONDS,
    IDLE_SECONDS,
    UNSYNCED_BYTES_MAX,
    UNSYNCED_SECONDS_MAX,
    CheckpointSchedule,
    SyncSchedule,
    idle_seconds_of,
)


def test_what_somebody_waits_for_is_synced_at_once() -> None:
    schedule = SyncSchedule()
    schedule.note_written(7.0, 10, awaited=True)
    assert schedule.is_due(7.0)


def test_what_nobody_waits_for_is_synced_within_a_second_though_nothing_more_is_written() -> None:
    """An idle tail must not wait for the next append."""
    schedule = SyncSchedule()
    schedule.note_written(7.0, 10, awaited=False)
    assert not schedule.is_due(7.0)
    assert schedule.next_deadline() == 7.0 + UNSYNCED_SECONDS_MAX
    assert schedule.is_due(8.0)


def test_later_writes_do_not_put_the_deadline_off() -> None:
    schedule = SyncSchedule()
    for now in (0.0, 0.5, 0.9):
        schedule.note_written(now, 10, awaited=False)
    assert schedule.next_deadline() == UNSYNCED_SECONDS_MAX


def test_a_mebibyte_is_synced_at_once() -> None:
    schedule = SyncSchedule()
    schedule.note_written(0.0, UNSYNCED_BYTES_MAX - 1, awaited=False)
    assert not schedule.is_due(0.0)
    schedule.note_written(0.0, 1, awaited=False)
    assert schedule.is_due(0.0)


def test_a_reader_at_the_end_has_it_synced_at_once() -> None:
    schedule = SyncSchedule()
    schedule.note_awaited()
    assert schedule.next_deadline() is None
    schedule.note_written(0.0, 1, awaited=False)
    schedule.note_awaited()
    assert schedule.is_due(0.0)


def test_nothing_written_is_never_due() -> None:
    schedule = SyncSchedule()
    schedule.note_written(0.0, 1, awaited=True)
    schedule.begin()
    assert not schedule.is_due(1e9)


def test_a_checkpoint_follows_soon_after_the_writing_stops() -> None:
    schedule = CheckpointSchedule()
    schedule.note_end(3.0, 10)
    assert schedule.next_deadline() == 3.0 + IDLE_SECONDS
    assert not schedule.is_due(3.5)
    schedule.begin()
    assert not schedule.is_due(1e9)


def test_logs_that_fall_silent_together_checkpoint_one_after_another_and_none_too_late() -> None:
    """A thousand recovery points at once would be in everybody's way."""
    rests = sorted(idle_seconds_of(f"/data/logs/orders/{number}") for number in range(1_000))
    assert rests[0] >= IDLE_SECONDS
    assert rests[-1] <= CHECKPOINT_SECONDS
    most = max(sum(begin <= rest < begin + 0.1 for rest in rests) for begin in rests)
    assert most < 60, "of a thousand in four seconds, 25 in a tenth"


def test_a_checkpoint_that_failed_is_tried_again_a_second_later() -> None:
    schedule = CheckpointSchedule()
    schedule.note_end(3.0, 10)
    schedule.begin()
    schedule.note_failed(4.0)
    assert schedule.next_deadline() == 4.0 + IDLE_SECONDS
    schedule.begin()
    assert schedule.next_deadline() is None


@given(st.lists(st.floats(0.01, 0.9), min_size=10, max_size=40))
def test_under_steady_writing_a_checkpoint_comes_each_five_seconds(pauses: list[float]) -> None:
    schedule = CheckpointSchedule()
    now, last = 0.0, 0.0
    for end, pause in enumerate(pauses, 1):
        now += pause
        schedule.note_end(now, end)
        if schedule.is_due(now):
            schedule.begin()
            last = now
        assert now - last <= CHECKPOINT_SECONDS + 0.9
