"""What every test may ask for: `--seeds` and `--kills` say how far the long kinds of test go."""

import signal

import pytest
from hypothesis import HealthCheck, settings

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


def pytest_configure() -> None:
    """A shell that starts us in the background has us, and all whom we start, ignore what some tests send."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--kills"))
