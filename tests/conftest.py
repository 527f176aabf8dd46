"""What every test may ask for: `--seeds` and `--kills` say how far the long kinds of test go."""

import signal

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

settings.register_profile(
    "default",
    max_examples=60,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("long", settings.get_profile("default"), max_examples=3_000)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=50, help="how many seeds the simulator runs")
    parser.addoption("--kills", type=int, default=3, help="how often a process is killed in each scenario")
    parser.addoption("--soak-minutes", type=float, default=0, help="how long the soak lasts; 0: a few rounds")


def pytest_configure() -> None:
    """A shell that starts us in the background has us, and all whom we start, ignore what some tests send."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class OneSessionInAProcess(LoadScopeScheduling):  # type: ignore[misc]  # xdist is seen as untyped
    """Tests of one session of Spark stay together, all others go one by one.

    That is what xdist's groups are for; but with pytest 9.2 it takes no notice of their marks.
    """

    def _split_scope(self, nodeid: str) -> str:
        return spark_session_of(nodeid) or nodeid


def spark_session_of(nodeid: str) -> str | None:
    """By the name of the file: below tests/spark `test_cluster_*.py` have executors of their own,
    `test_command_*.py` no session at all.
    """
    folder, _, name = nodeid.partition("::")[0].rpartition("/")
    if "tests/spark" not in folder or name.startswith("test_command_"):
        return None
    return "cluster" if name.startswith("test_cluster_") else "local"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneSessionInAProcess | None:
    return OneSessionInAProcess(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture
def soak_minutes(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--soak-minutes"))


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--kills"))
