"""A broker on real sockets for each test, and the promise that no thread is left behind."""

import threading
from collections.abc import Iterator

import pytest

from goqueue import blocking
from goqueue.testing import loopback_broker


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in threading.enumerate() if thread not in before and "goqueue" in thread.name]
    assert not left


@pytest.fixture
def address() -> Iterator[str]:
    with loopback_broker() as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[blocking.Client]:
    with blocking.connect(address) as client:
        client.create_topic("orders", partitions=1)
        yield client
