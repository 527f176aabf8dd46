"""A restart is counted by kind and logged as one line with the error; the traceback is for DEBUG."""

import logging
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.partition.requests import Fetch
from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.reports import ChildReport, Fate, log_report
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import Supervisor
from goqueue.actors.statistics.statistics import TopicCounts
from goqueue.actors.topics.requests import CreateTopic
from goqueue.errors import ActorDied
from goqueue.storage.slices import Slices
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker, partition_of
from tests.actors.runtime.troupe import Do, Puppet, crash

NO_TOPICS = TopicCounts(0, 0, 0, 0, 0)
NONSENSE: Any = None


async def test_a_partition_that_crashes_is_counted_and_named(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker(SimulatedDisk(Random(0))) as there:
        partition = await partition_of(there, await there.topics.call(CreateTopic("orders", 1, {})))
        for _ in range(2):
            with pytest.raises(ActorDied):
                await partition.call(Fetch(NONSENSE, 1))
            await trio.sleep(10)
        counted = await there.statistics.report(NO_TOPICS, 0, {}, {}, Slices())
    assert (counted["restarts"], counted["restarts.partition"], counted["restarts.group"]) == (2, 2, 0)
    lines = [record for record in caplog.records if record.name == "goqueue.actors"]
    assert [line.levelno for line in lines] == [logging.ERROR] * 2
    assert f"restart 2 of partition {partition.name} after TypeError: " in lines[1].getMessage()


async def test_the_report_of_a_restart_has_kind_error_and_number() -> None:
    reports: list[ChildReport] = []
    worker = ChildSpec("worker-7", Puppet, kind="worker")
    other = ChildSpec("other", Puppet)
    async with running(supervised("top", lambda: Supervisor([worker, other], report=reports.append))):
        for spec in (worker, worker, other):
            spec.ref.cast(Do(crash))
            await trio.testing.wait_all_tasks_blocked()
    assert [(each.child, each.kind, each.restart) for each in reports] == [
        ("worker-7", "worker", 1),
        ("worker-7", "worker", 2),
        ("other", "other", 1),
    ]


def failed() -> ValueError:
    try:
        raise ValueError("first\nsecond")
    except ValueError as error:
        return error


def test_a_restart_is_one_line_and_its_traceback_is_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    report = ChildReport("partitions", "orders/0", Fate.RESTARTING, failed(), "partition", 3)
    with caplog.at_level(logging.INFO, "goqueue.actors"):
        log_report(report)
    [line] = caplog.records
    assert line.exc_info is None
    assert line.getMessage() == (
        "restart 3 of partition orders/0 after ValueError: first second (a child of partitions)"
    )
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "goqueue.actors"):
        log_report(report)
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.DEBUG]
    assert caplog.records[1].exc_info is not None


def test_other_fates_are_one_line_too(caplog: pytest.LogCaptureFixture) -> None:
    log_report(ChildReport("broker", "timers", Fate.GIVEN_UP, failed(), "timers", 1))
    log_report(ChildReport("broker", "janitor", Fate.CUT_OFF, None, "janitor", 1))
    assert [record.getMessage() for record in caplog.records] == [
        "timers crashed and takes its supervisor with it after ValueError: first second (a child of broker)",
        "janitor did not stop in time and was cancelled (a child of broker)",
    ]
