"""Real Spark and a real broker. `spark` is a session in this process, `spark_cluster` one with real executors.

A process has one session. So tests with executors stand in files named `test_cluster_*.py`, all others have the
local session, and `--dist loadgroup` gives each kind to one process (tests/conftest.py). Those that start programs
and need no session are in `test_command_*.py`, and run in whichever process is free. Without xdist the local ones
run first, then those of the cluster.

What a test sends to executors is a function inside of a function: it travels whole. One of a module would travel by
name, and executors know nothing of the tests.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from goqueue import blocking
from tests.conftest import spark_session_of
from tests.spark.broker import BrokerProcess, broker_process
from tests.spark.sessions import CLUSTER, LOCAL, Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        wanted, group = _session_wanted(item), spark_session_of(item.nodeid)
        assert wanted in (None, group), f"{item.nodeid}: spark_cluster is for test_cluster_*.py, spark for others"
    items.sort(key=lambda item: spark_session_of(item.nodeid) == "cluster")


def _session_wanted(item: pytest.Item) -> str | None:
    names = getattr(item, "fixturenames", ())
    return "cluster" if "spark_cluster" in names else "local" if "spark" in names else None


@pytest.fixture(scope="session")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    made = Sessions(tmp_path_factory.mktemp("spark"))
    yield made
    made.stop()


@pytest.fixture
def spark(sessions: Sessions) -> "SparkSession":
    """`local[2]`, with goqueue registered."""
    return _registered(sessions.of(LOCAL))


@pytest.fixture
def spark_cluster(sessions: Sessions) -> "SparkSession":
    """`local-cluster[2,1,1024]`, with goqueue registered: a driver here, and two executors that can be killed."""
    return _registered(sessions.of(CLUSTER))


def _registered(session: "SparkSession") -> "SparkSession":
    import goqueue.spark  # noqa: PLC0415

    goqueue.spark.register(session)
    return session


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """For tests that leave it as it is and make topics of their own."""
    with broker_process(tmp_path_factory.mktemp("broker") / "data") as broker:
        yield broker


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """For tests that kill it."""
    with broker_process(tmp_path_factory.mktemp("broker") / "data") as broker:
        yield broker


@pytest.fixture
def url(shared_broker: BrokerProcess) -> str:
    return shared_broker.url


@pytest.fixture
def client(url: str) -> Iterator[blocking.Client]:
    """Of the shared broker."""
    with blocking.connect(url, name="test") as client:
        yield client


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"orders-{uuid4().hex[:12]}"
