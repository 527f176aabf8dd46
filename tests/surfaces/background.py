"""For tests with threads: something that runs beside the test, and clients whose broker has gone."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from goqueue import aio, blocking
from goqueue.testing import loopback_broker

LONG = 30.0
"""Nothing takes so long, unless it hangs."""


def in_background(function: Callable[[], object]) -> "Outcome":
    """Run it in a thread of its own."""
    outcome = Outcome(function)
    outcome.start()
    return outcome


class Outcome(threading.Thread):
    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self.value: object = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self._function()
        except BaseException as error:
            self.error = error

    def ended(self) -> "Outcome":
        self.join(LONG)
        assert not self.is_alive()
        return self


def wait_until(condition: Callable[[], bool]) -> None:
    """For something that another thread brings about at no particular moment."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@contextmanager
def trio_stands_still(client: blocking.Client | aio.Client) -> Iterator[None]:
    """Trio's thread does nothing in this block: what needs it waits."""
    stands, go_on = threading.Event(), threading.Event()

    def stand() -> None:
        stands.set()
        assert go_on.wait(LONG)

    client._host.thread.tell(stand)
    assert stands.wait(LONG)
    try:
        yield
    finally:
        go_on.set()


def calls_under_way(client: blocking.Client) -> int:
    """Those that have a task in the Trio thread."""
    tasks = client._host._tasks
    return 0 if tasks is None else len(tasks.child_tasks)


def is_being_left(producer: blocking.Producer) -> bool:
    return bool(producer._host._leaving)


@contextmanager
def client_and_producer_without_a_broker() -> Iterator[tuple[blocking.Client, blocking.Producer]]:
    """Opened while there was one. The producer is for the test to leave."""
    with ExitStack() as stack:
        with loopback_broker() as address:
            client = stack.enter_context(blocking.connect(address))
            client.create_topic("orders", 1)
            producer = client.producer("orders", buffer_messages=3)
            producer.__enter__()
        yield client, producer


@contextmanager
def producer_without_a_broker() -> Iterator[blocking.Producer]:
    with client_and_producer_without_a_broker() as (_, producer):
        try:
            yield producer
        except BaseException as error:
            producer.__exit__(type(error), error, None)
            raise
        producer.__exit__(None, None, None)
