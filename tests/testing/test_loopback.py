"""The broker on loopback: real sockets, for whatever connects."""

import threading
from pathlib import Path

import pytest

import goqueue
from goqueue import blocking
from goqueue.testing import loopback_broker


def test_it_keeps_its_messages_in_a_directory_and_ends_with_its_block(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with loopback_broker(tmp_path) as address, blocking.connect(address) as client:
        client.create_topic("orders", 1)
        client.publish("orders", b"kept")
    port = int(address.rpartition(":")[2])
    with loopback_broker(str(tmp_path), port=port) as again, blocking.connect(again) as client:
        assert again == address
        assert [message.value for message in client.read("orders", end="latest")] == [b"kept"]
    assert not any("goqueue" in thread.name for thread in set(threading.enumerate()) - before)


def test_each_without_a_directory_begins_empty() -> None:
    with loopback_broker() as first, loopback_broker() as second:
        with blocking.connect(first) as client:
            client.create_topic("orders")
        with blocking.connect(second) as client:
            assert client.topics() == []


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    with loopback_broker(tmp_path), pytest.raises(goqueue.GoQueueError, match="holds"), loopback_broker(tmp_path):
        pytest.fail("it must not start")
    with loopback_broker(tmp_path):
        pass


def test_a_clients_thread_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor is left for its event loop, say."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("goqueue.portal.thread.trio.run", refuse)
    with pytest.raises(OSError, match="Too many open files"), blocking.connect() as _:
        pytest.fail("it must not be entered")
    monkeypatch.undo()
    with loopback_broker() as address, blocking.connect(address) as client:
        assert client.topics() == []
