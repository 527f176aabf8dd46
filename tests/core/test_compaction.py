"""Which records compaction keeps."""

from goqueue.core.compaction import NewestByKey, keeps_newest, keeps_pending
from goqueue.core.record import Flag

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


def test_control_records_and_delayed_originals_stay_and_supersede_nothing() -> None:
    for flag in (Flag.CONTROL, Flag.DELAYED):
        newest = learned(b"a")
        newest.note(b"a", flag, 1)
        assert keeps(newest, b"a", 0)
        newest.note(b"a", 0, 2)
        assert keeps(newest, b"a", 1, flag)


def test_memory_for_keys_is_bounded() -> None:
    newest = NewestByKey(keys_max=2)
    newest.note(b"a", 0, 0)
    assert not newest.full
    newest.note(b"b", 0, 1)
    assert newest.full


def test_an_expired_segment_keeps_pending_messages_alone() -> None:
    pending = {3}
    assert keeps_pending(pending, Flag.DELAYED, 3)
    assert not keeps_pending(pending, Flag.DELAYED, 4)
    assert not keeps_pending(pending, 0, 3)
