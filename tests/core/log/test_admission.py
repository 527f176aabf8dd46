"""What a partition takes in."""

import pytest

from goqueue.core.log.admission import Admission, check_disk
from goqueue.core.records.record import Flag, encode_record
from goqueue.core.topics.config import TopicConfig
from goqueue.errors import BatchRefused, DiskFull, InvalidMessage, TooLarge, TopicFull
from goqueue.types import Acks

GIBIBYTE = 1024**3


def test_a_topics_limits_are_shared_among_its_partitions() -> None:
    config = TopicConfig(max_bytes=1_000, max_messages=10, overflow="drop_oldest", min_acks="leader")
    assert Admission.of(config, 4) == Admission(
        min_acks=Acks.LEADER, bytes_max=250, messages_max=2, drops_oldest=True
    )
    assert Admission.of(TopicConfig(max_messages=1), 4).messages_max == 1


def test_the_least_acks_are_asked_for() -> None:
    limits = Admission(min_acks=Acks.LEADER)
    limits.check_acks(Acks.LEADER)
    limits.check_acks(Acks.ALL)
    with pytest.raises(InvalidMessage, match="leader"):
        limits.check_acks(Acks.NONE)


def test_a_value_is_measured_without_its_headers_and_due_time() -> None:
    limits = Admission(message_bytes_max=5)
    body = encode_record(0, 0, b"12345", key=b"key", headers={"a": bytes(100)}, due=7)
    assert limits.checks_records
    limits.check_records(body, 1)
    with pytest.raises(BatchRefused):
        limits.check_records(encode_record(0, 0, b"123456"), 1)


def test_a_compacted_topic_wants_keys_and_names_each_message_without_one() -> None:
    limits = Admission.of(TopicConfig(cleanup="compact", max_message_bytes=5), 1)
    records = [
        encode_record(0, 0, b"value", key=b"k"),
        encode_record(1, 0, b"value"),
        encode_record(2, 0, b"", key=b"k", flags=Flag.TOMBSTONE),
        encode_record(3, 0, b"123456", key=b"k"),
        encode_record(4, 0, b"", headers={"a": b"1"}, due=5),
    ]
    with pytest.raises(BatchRefused) as refused:
        limits.check_records(b"".join(records), 5)
    faults = [(bad.index, type(bad.error), bad.error.message[:20]) for bad in refused.value.records]
    assert faults == [
        (1, InvalidMessage, "this topic is compac"),
        (3, TooLarge, "the value has 6 byte"),
        (4, InvalidMessage, "this topic is compac"),
    ]
    assert not Admission.of(TopicConfig(), 1).checks_records


def test_a_full_topic_refuses_unless_it_drops_the_oldest() -> None:
    full = Admission(bytes_max=100, messages_max=10)
    full.check_room(100, 10)
    for size, messages in ((101, 1), (1, 11)):
        with pytest.raises(TopicFull):
            full.check_room(size, messages)
        Admission(bytes_max=100, messages_max=10, drops_oldest=True).check_room(size, messages)


@pytest.mark.parametrize(
    ("free", "total", "taken"),
    [
        (GIBIBYTE, 10 * GIBIBYTE, True),
        (GIBIBYTE - 1, 10 * GIBIBYTE, False),
        (50 * GIBIBYTE, 1_000 * GIBIBYTE, True),
        (49 * GIBIBYTE, 1_000 * GIBIBYTE, False),
    ],
)
def test_five_per_cent_and_a_gibibyte_stay_free(free: int, total: int, taken: bool) -> None:
    if taken:
        check_disk(free, total)
        return
    with pytest.raises(DiskFull) as error:
        check_disk(free, total)
    assert error.value.retryable
