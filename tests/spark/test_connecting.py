"""Spark's processes reach the broker, or say soon that they do not."""

import pytest

from goqueue.errors import Unavailable
from goqueue.spark.connecting import connected
from tests.spark.broker import BrokerProcess


def test_a_client_works_once_it_is_there(url: str, topic: str) -> None:
    with connected(url) as client:
        assert client.create_topic(topic, 2).name == topic


def test_a_broker_that_is_not_there_is_named_soon() -> None:
    with (
        pytest.raises(Unavailable, match=r"no broker answers at ws://127\.0\.0\.1:1 within 0\.2 s"),
        connected("ws://127.0.0.1:1", seconds_max=0.2),
    ):
        pass


def test_a_broker_that_was_killed_is_found_again_with_what_it_kept(own_broker: BrokerProcess, topic: str) -> None:
    with connected(own_broker.url) as client:
        client.create_topic(topic)
        own_broker.kill()
        own_broker.start()
        assert client.topic(topic).name == topic
