"""`goqueue check`, against a broker on loopback: the exit code is the answer."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goqueue.cli.check import CheckExit, _judged
from goqueue.core.health import DISK_LOW, DRAINING, READY, HealthReason
from goqueue.environment import Space
from goqueue.storage.disk.disk import RealDisk
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback

REASON = HealthReason("dead_letters", "1 dead letter waits: pay (1)", "look at it")


class NarrowDisk(RealDisk):
    """As full as the test says."""

    free = 10**12

    def space(self, path: str) -> Space:
        return Space(self.free, 10**12)


@pytest.fixture
def disk() -> NarrowDisk:
    return NarrowDisk()


@pytest.fixture
async def shell(tmp_path: Path, disk: NarrowDisk) -> AsyncIterator[Shell]:
    async with broker_on_loopback(disk, str(tmp_path / "data")) as url:
        yield Shell(url)


async def test_a_good_broker_ends_the_command_with_0(shell: Shell) -> None:
    checked = await shell("check")
    assert (checked.exit_code, checked.stdout) == (0, "the broker serves, and nothing impairs it\n")
    checked = await shell("check", "--for", "publish", "-o", "json")
    assert checked.exit_code == 0
    assert '"status": "ready"' in checked.stdout


async def test_a_degraded_one_with_1_and_what_to_do(shell: Shell, disk: NarrowDisk) -> None:
    disk.free = 10
    checked = await shell("check")
    assert checked.exit_code == 1
    assert "disk_low: 0.0 MiB are free on the disk, and publishes are refused below" in checked.stdout
    assert "  make room: delete or purge topics" in checked.stdout


async def test_one_that_refuses_what_is_wanted_with_2(shell: Shell, disk: NarrowDisk) -> None:
    disk.free = 10
    checked = await shell("check", "--for", "publish", "-o", "json")
    assert checked.exit_code == 2
    [line] = checked.stdout.splitlines()
    assert '"exit_code": 2, "status": "disk_low"' in line
    assert '"code": "disk_low"' in line


async def test_one_that_is_not_there_with_3(shell: Shell) -> None:
    nobody = await Shell("ws://127.0.0.1:1")("check", "--timeout", "0.05")
    assert nobody.exit_code == 3
    assert "no broker answers at ws://127.0.0.1:1" in nobody.stdout


async def test_an_address_that_is_none_is_no_answer(shell: Shell) -> None:
    assert (await Shell("nonsense")("check")).exit_code == 2


@pytest.mark.parametrize(
    ("status", "degraded", "expected"),
    [
        (READY, (), CheckExit.GOOD),
        (READY, (REASON,), CheckExit.DEGRADED),
        (DRAINING, (), CheckExit.NOT_SERVING),
        (DISK_LOW, (REASON,), CheckExit.NOT_SERVING),
    ],
)
def test_the_exit_code_follows_the_status_first(
    status: str, degraded: tuple[HealthReason, ...], expected: CheckExit
) -> None:
    assert _judged(status, degraded).exit_code is expected
