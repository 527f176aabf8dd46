"""`goqueue.blocking`: the client without an event loop, against a broker on real sockets."""

from datetime import UTC, datetime

import pytest

import goqueue
from goqueue import blocking
from tests.surfaces.background import (
    calls_under_way,
    client_and_producer_without_a_broker,
    in_background,
    producer_without_a_broker,
    wait_until,
)

# What it does


def test_topics_are_made_listed_changed_and_deleted(address: str) -> None:
    with blocking.connect(address) as client:
        small = client.create_topic("small", 1, {"retention_hours": 5})
        assert client.topics() == [small]
        assert client.topic("small") == small
        assert client.alter_topic("small", {"retention_hours": 6}).config["retention_hours"] == 6
        assert len(client.add_partitions("small", 4).partitions) == 4
        assert client.stats()["partitions"] == 4
        client.delete_topic("small")
        assert client.topics() == []


def test_a_message_is_read_back_as_it_was_published(client: blocking.Client) -> None:
    where = client.publish("orders", b"v", key=b"k", headers={"a": b"1"}, priority="high", acks="leader")
    assert where == goqueue.Published("orders", 0, 0)
    assert not where.repeated
    [message] = client.read("orders", end="latest")
    assert (message.value, message.key, message.headers) == (b"v", b"k", {"a": b"1"})
    assert message.priority is goqueue.Priority.HIGH


def test_a_publish_says_whether_it_was_a_repeat(client: blocking.Client) -> None:
    assert not client.publish("orders", b"v", message_id="a").repeated
    with client.producer("orders") as producer:
        assert producer.send(b"v", message_id="a").repeated
        first, again = (producer.send_many([b"1", b"2"], message_id="b") for _ in range(2))
    assert ([each.repeated for each in first], [each.repeated for each in again]) == ([False] * 2, [True] * 2)
    assert first == again


def test_messages_can_be_purged_and_deleted(client: blocking.Client) -> None:
    for value in (b"a", b"b", b"c"):
        client.publish("orders", value)
    client.delete_before("orders", 0, 1)
    assert [message.value for message in client.read("orders", end="latest")] == [b"b", b"c"]
    client.purge("orders")
    assert list(client.read("orders", end="latest")) == []


def test_a_producer_sends_one_some_and_many_in_order(client: blocking.Client) -> None:
    with client.producer("orders") as producer:
        assert producer.send(b"0").offset == 0
        producer.send_nowait(b"1")
        producer.flush()
        assert [each.offset for each in producer.send_many([b"2", b"3"], [b"k", None])] == [2, 3]
        assert producer.send_many([]) == []
        producer.send_many_nowait([b"4"])
    assert [message.value for message in client.read("orders", end="latest")] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_reader_ends_at_a_time(client: blocking.Client) -> None:
    for number in range(4):
        client.publish("orders", b"%d" % number)
    times = [message.timestamp for message in client.read("orders", end="latest")]
    moment = datetime.fromtimestamp(times[2], UTC)
    for end in (times[2], moment, moment.isoformat()):
        assert [message.value for message in client.read("orders", end=end)] == [b"0", b"1"]
    assert [message.value for message in client.read("orders", start="last:1", end="latest")] == [b"3"]


def test_a_reader_follows_what_others_publish(client: blocking.Client) -> None:
    with client.read("orders") as reader:
        waiting = in_background(lambda: next(reader).value)
        wait_until(lambda: calls_under_way(client) == 1)
        client.publish("orders", b"late")
        assert waiting.ended().value == b"late"


def test_a_batch_crosses_between_threads_at_once(client: blocking.Client) -> None:
    with client.producer("orders") as producer:
        producer.send_many([b"%d" % number for number in range(1_000)])
    reader = client.read("orders", end="latest")
    assert next(reader).value == b"0"
    batch = reader.next_batch()
    assert [message.value for message in batch] == [b"%d" % number for number in range(1, 1_000)]
    assert reader.next_batch() == []


# Errors


def test_errors_come_as_themselves(client: blocking.Client) -> None:
    with pytest.raises(goqueue.UnknownTopic):
        client.publish("missing", b"")
    with pytest.raises(goqueue.TopicExists):
        client.create_topic("orders")
    with pytest.raises(goqueue.InvalidMessage):
        client.publish("orders", "text")  # type: ignore[arg-type]
    with pytest.raises(goqueue.UnknownTopic):
        next(client.read("missing"))
    with pytest.raises(goqueue.UnknownTopic), client.producer("missing"):
        pytest.fail("it must not be entered")
    with pytest.raises(goqueue.InvalidMessage):
        client.producer("orders", acks="some")
    assert client.publish("orders", b"").offset == 0


def test_an_error_of_the_body_leaves_as_itself(address: str) -> None:
    def fail(error: BaseException) -> None:
        with blocking.connect(address) as client:
            client.topics()
            raise error

    for error in (ValueError("of the body"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as raised:
            fail(error)
        assert raised.value is error


def test_what_was_queued_and_failed_is_told_when_the_producer_is_left(client: blocking.Client) -> None:
    client.alter_topic("orders", {"max_message_bytes": 1_024})
    with pytest.raises(goqueue.PublishFailed, match="allows 1024"), client.producer("orders") as producer:
        producer.send_nowait(bytes(5_000))


def test_a_producer_left_by_an_exception_drops_what_was_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        with producer_without_a_broker() as producer:
            for _ in range(3):
                producer.send_nowait(b"to nobody")
            raise ValueError("of the body")

    with pytest.raises(ValueError, match="of the body"):
        fail()
    assert "3 messages to orders were dropped unconfirmed" in caplog.text


def test_a_full_buffer_says_so_at_once() -> None:
    with client_and_producer_without_a_broker() as (_, producer):
        for _ in range(3):
            producer.send_nowait(b"to nobody")
        with pytest.raises(goqueue.BufferFull, match="3 messages wait"):
            producer.send_nowait(b"one too many")
