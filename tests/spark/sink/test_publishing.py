"""What a task does with its record batches, without Spark around it."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from goqueue import blocking
from goqueue.errors import RowRefused
from goqueue.spark.sink import publishing
from goqueue.spark.sink.publishing import publish_all


def values(client: blocking.Client, topic: str) -> list[bytes]:
    return sorted(message.value for message in client.read(topic, end="latest"))


def test_rows_of_many_batches_are_confirmed_and_counted(
    client: blocking.Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut into slices, and confirmed in between, however small or large the batches are."""
    monkeypatch.setattr(publishing, "SLICE_BYTES", 500)
    monkeypatch.setattr(publishing, "UNCONFIRMED_BYTES_MAX", 2_000)
    client.create_topic(topic, 3)
    sent = [b"%d" % number for number in range(1_000)]
    batches = [pa.record_batch({"value": part}) for part in (sent[:1], sent[1:700], sent[:0], sent[700:])]
    assert publish_all(client, topic, batches) == 1_000
    assert values(client, topic) == sorted(sent)
    assert publish_all(client, topic, []) == 0


def test_tasks_of_few_rows_without_keys_spread_over_the_partitions(client: blocking.Client, topic: str) -> None:
    client.create_topic(topic, 3)
    for task in range(60):
        publish_all(client, topic, [pa.record_batch({"value": [b"%d" % task]})])
    assert all(list(client.read(topic, partition=each, end="latest")) for each in range(3))


def test_each_row_may_have_its_own_topic(client: blocking.Client, topic: str) -> None:
    for name in (topic, f"{topic}-bills"):
        client.create_topic(name, 1)
    rows = pa.record_batch({"value": [b"1", b"2", b"3"], "topic": [topic, f"{topic}-bills", topic]})
    assert publish_all(client, None, [rows]) == 3
    assert (values(client, topic), values(client, f"{topic}-bills")) == ([b"1", b"3"], [b"2"])


def test_a_null_value_is_a_tombstone(client: blocking.Client, topic: str) -> None:
    client.create_topic(topic, 1)
    rows = pa.record_batch({"value": [b"1", None, b""], "key": [b"k", b"k", None]})
    assert publish_all(client, topic, [rows]) == 3
    found = [(message.key, message.value) for message in client.read(topic, end="latest")]
    assert found == [(b"k", b"1"), (b"k", None), (None, b"")]


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"value": [b"", b"", None]}, "without a value it is a tombstone, which deletes a key"),
        ({"value": [None, b"", None], "key": [b"k", None, b""]}, "without a value it is a tombstone"),
        ({"value": [b""] * 3, "priority": [0, 4, 5]}, "5 is no priority"),
        ({"value": [b""] * 3, "delay": [None, 1.0, -1.0]}, "delay=-1.0 is no delay"),
        ({"value": [b""] * 3, "delay": [None, 0.0, float("nan")]}, "delay=nan is no delay"),
        ({"value": [b""] * 3, "partition": [None, 0, 1]}, "there is no partition 1"),
        ({"value": [b""] * 3, "key": [b"k", None, bytes(70_000)]}, "the key has 70000 bytes"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_named_by_its_number_in_the_task(
    client: blocking.Client, topic: str, columns: Mapping[str, Any], fault: str
) -> None:
    client.create_topic(topic, 1)
    before = pa.record_batch({"value": [b"before"] * 10})
    with pytest.raises(RowRefused, match=rf"^row 12 of this task \(from 0\): {fault}") as refused:
        publish_all(client, topic, [before, pa.record_batch(dict(columns))])
    assert refused.value.details == {"row": 12}


@pytest.mark.parametrize(("name", "fault"), [("no-such-topic", "no-such-topic"), ("../up", "cannot have")])
def test_a_row_whose_topic_is_none_is_named(client: blocking.Client, topic: str, name: str, fault: str) -> None:
    client.create_topic(topic, 1)
    rows = pa.record_batch({"value": [b"", b""], "topic": [topic, name]})
    with pytest.raises(RowRefused, match=f"^row 1 .*{fault}"):
        publish_all(client, None, [rows])
