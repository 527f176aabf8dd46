"""Which records compaction keeps."""

from collections.abc import Callable

import pytest

from goqueue.core.delays.events import cancel_batch, move_batch
from goqueue.core.log.compaction import NewestByKey, keeps_hidden, keeps_newest, keeps_pending
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.record import Flag, encode_record, walk_records
from goqueue.types import Buffer, Offset

DAY = 24 * 3600 * 1_000_000


def keeps(newest: NewestByKey, key: bytes, offset: int, flags: int = 0, age: int = 0) -> bool:
    return keeps_newest(newest, key, flags, offset, age=age, tombstone_age=DAY)


def learned(*keys: bytes, flags: int = 0) -> NewestByKey:
    newest = NewestByKey()
    for offset, key in enumerate(keys):
        newest.note(key, flags, offset)
    return newest


def test_only_the_newest_record_of_a_key_stays() -> None:
    newest = learned(b"a", b"b", b"a")
    assert [keeps(newest, key, offset) for offset, key in enumerate((b"a", b"b", b"a"))] == [False, True, True]


def test_records_without_a_key_are_not_merged() -> None:
    newest = learned(b"", b"", b"")
    assert all(keeps(newest, b"", offset) for offset in range(3))


def test_a_tombstone_stays_for_a_day() -> None:
    newest = learned(b"a", b"a")
    assert keeps(newest, b"a", 1, Flag.TOMBSTONE, age=DAY - 1)
    assert not keeps(newest, b"a", 1, Flag.TOMBSTONE, age=DAY)


def test_a_tombstone_beyond_what_was_learned_stays_since_older_records_may() -> None:
    newest = learned(b"a")
    assert keeps(newest, b"b", 1, Flag.TOMBSTONE, age=DAY)


def test_control_records_and_delayed_originals_supersede_nothing() -> None:
    for flag in (Flag.CONTROL, Flag.DELAYED):
        newest = learned(b"a")
        newest.note(b"a", flag, 1)
        assert keeps(newest, b"a", 0)


def test_memory_for_keys_is_bounded() -> None:
    newest = NewestByKey(keys_max=2)
    newest.note(b"a", 0, 0)
    assert not newest.full
    newest.note(b"b", 0, 1)
    assert newest.full


PENDING = OffsetSet([(3, 3)])
ORIGINAL = encode_record(0, 0, b"v", key=b"a", due=5)
OTHERS_CONTROL = encode_record(0, 0, b"v", key=b"something else", flags=Flag.CONTROL)


def of_one(keeps: Callable[..., bool], record: Buffer, offset: Offset) -> bool:
    [place] = walk_records(record, 1)
    return keeps(PENDING, offset, memoryview(record), place)


@pytest.mark.parametrize("keeps", [keeps_pending, keeps_hidden])
def test_an_original_stays_as_long_as_it_is_pending(keeps: Callable[..., bool]) -> None:
    assert of_one(keeps, ORIGINAL, 3)
    assert not of_one(keeps, ORIGINAL, 4)


@pytest.mark.parametrize("keeps", [keeps_pending, keeps_hidden])
def test_when_a_pending_one_is_due_stays_known(keeps: Callable[..., bool]) -> None:
    """G8: without the record that moved it, an index made anew would have it fire early."""
    assert of_one(keeps, move_batch(3, 99, 0).body, 50)
    assert not of_one(keeps, move_batch(4, 99, 0).body, 50)
    assert not of_one(keeps, cancel_batch(4, 0).body, 50)


def test_an_expired_segment_keeps_nothing_else() -> None:
    assert not of_one(keeps_pending, encode_record(0, 0, b"v", key=b"a"), 3)
    assert not of_one(keeps_pending, OTHERS_CONTROL, 3)
    assert of_one(keeps_hidden, OTHERS_CONTROL, 3)
