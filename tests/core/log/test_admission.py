"""What a partition takes in."""

import pytest

from goqueue.core.log.admission import Admission, check_disk
from goqueue.core.records.record import encode_record
from goqueue.core.topics.config import TopicConfig
from goqueue.errors import BatchRefused, DiskFull, InvalidMessage, TopicFull
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
    limits.check_sizes(body, 1)
    with pytest.raises(BatchRefused):
        limits.check_sizes(encode_record(0, 0, b"123456"), 1)


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
