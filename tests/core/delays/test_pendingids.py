"""The offsets of pending messages by their ids: none is missed, and memory follows what is pending."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.delays.pendingids import BUCKET_MAX, PendingIds

IDS = st.binary(min_size=1, max_size=3)


@given(st.lists(IDS, max_size=300), st.sets(st.integers(0, 299)))
def test_every_message_is_found_by_its_id_and_those_that_ended_are_forgotten(
    added: list[bytes], ended: set[int]
) -> None:
    ids = PendingIds()
    for offset, message_id in enumerate(added):
        ids.add(message_id, offset)
    for message_id in added:
        assert ids.find(message_id) == [offset for offset, each in enumerate(added) if each == message_id]
    pending = set(range(len(added))) - ended
    for bucket in range(ids.bucket_count):
        ids.keep_only(bucket, pending.__contains__)
    assert len(ids) == len(pending)
    for message_id in added:
        found = ids.find(message_id)
        assert found == [offset for offset, each in enumerate(added) if each == message_id and offset in pending]


def test_many_ids_lie_in_small_buckets() -> None:
    ids = PendingIds()
    for offset in range(50_000):
        ids.add(b"%d" % offset, offset)
    sizes = [len(bucket) // 2 for bucket in ids._buckets]
    assert sum(sizes) == 50_000
    assert max(sizes) <= 5 * BUCKET_MAX
    assert all(ids.find(b"%d" % offset) == [offset] for offset in range(0, 50_000, 97))


def test_an_id_that_was_added_twice_with_its_offset_is_found_once() -> None:
    ids = PendingIds()
    for offset in (5, 5, 3):
        ids.add(b"a", offset)
    assert ids.find(b"a") == [3, 5]
