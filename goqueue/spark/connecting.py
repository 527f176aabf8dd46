"""Connections to the broker from Spark's processes: the driver's planners and the executors' tasks.

Each has its own client: processes of Spark fork, and a connection does not survive that. A client waits half a
minute for a broker that is down, which is right for a program that runs on. A query that is about to start fails
soon, with one sentence; once it was connected, the client's own time limit holds, and so it does for a task, which
belongs to a running query: a broker may be away just when it begins.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from goqueue import blocking
from goqueue.blocking.inside import be_patient, call
from goqueue.errors import Unavailable
from goqueue.net.wire import messages as wire
from goqueue.net.wire.failures import PATIENCE_SECONDS

CONNECT_SECONDS_MAX = 10.0


@contextmanager
def connected(
    url: str,
    *,
    name: str = "spark",
    seconds_max: float = CONNECT_SECONDS_MAX,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[blocking.Client]:
    """A client that has reached the broker, for a block; `Unavailable` when no broker answers in time. Later it
    waits for `patience_seconds`.
    """
    with blocking.connect(url, name=name) as client:
        be_patient(client, patience_seconds)
        _greet(client, url, seconds_max)
        yield client


def connected_in_task(
    url: str, patience_seconds: float = PATIENCE_SECONDS
) -> AbstractContextManager[blocking.Client]:
    return connected(url, seconds_max=patience_seconds, patience_seconds=patience_seconds)


def _greet(client: blocking.Client, url: str, seconds_max: float) -> None:
    """A request without topics, as every task sends it: a client connects by itself, and its first request is what
    fails."""
    try:
        with blocking.fail_after(seconds_max):
            call(client, wire.DescribeTopics(()), wire.Topics)
    except (TimeoutError, Unavailable):
        raise Unavailable(
            f"no broker answers at {url} within {seconds_max:g} s. Is it running, and is this an address that the "
            f"driver and every executor of Spark can reach?"
        ) from None
