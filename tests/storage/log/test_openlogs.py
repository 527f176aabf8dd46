"""The survey of all open logs: what was appended to each topic stays counted when its logs are closed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from goqueue.storage.log.log import Log
from goqueue.storage.log.openlogs import LogsSurvey, OpenLogs, WrittenCounts
from goqueue.storage.log.volume import Volume
from goqueue.storage.slices import Slices
from tests.storage.logs import SMALL, batch, publish


@asynccontextmanager
async def opened(volume: Volume, place: str) -> AsyncIterator[Log]:
    log = await Log.open(volume, f"/data/logs/{place}", SMALL)
    volume.logs.enter(log)
    yield log
    await log.close()
    volume.logs.leave(log)


async def survey(logs: OpenLogs) -> LogsSurvey:
    return await logs.survey(Slices())


async def test_what_was_appended_is_counted_by_topic(volume: Volume) -> None:
    async with (
        opened(volume, "orders/0") as one,
        opened(volume, "orders/1") as two,
        opened(volume, "bills/0") as other,
    ):
        await publish(one, batch(b"a", b"b"))
        await publish(two, batch(b"c"))
        await publish(other, batch(b"d"))
        found = await survey(volume.logs)
        size = batch(b"a", b"b").size + batch(b"c").size
        assert found.by_topic["orders"] == WrittenCounts(2, 3, size)
        assert found.written == WrittenCounts(3, 4, size + batch(b"d").size)
        assert found.bytes == found.written.bytes
        assert not found.damage


async def test_a_log_that_is_opened_again_goes_on_with_the_counts_of_its_topic(volume: Volume) -> None:
    for count in range(1, 4):
        async with opened(volume, "orders/0") as log:
            await publish(log, batch(b"a"))
            assert (await survey(volume.logs)).by_topic["orders"].records == count
        assert (await survey(volume.logs)).by_topic["orders"].records == count
    assert (await survey(volume.logs)).bytes == 0, "nobody has it open"


async def test_the_counts_of_a_deleted_topic_end_and_stay_in_the_total(volume: Volume) -> None:
    for topic in ("orders", "bills"):
        async with opened(volume, f"{topic}/0") as log:
            await publish(log, batch(b"a"))
    volume.logs.end_topic("orders")
    found = await survey(volume.logs)
    assert (list(found.by_topic), found.written.records) == (["bills"], 2)
    volume.logs.complete(())
    found = await survey(volume.logs)
    assert (found.by_topic, found.written.records) == ({}, 2)


class Interrupted(Slices):
    """Closes a log in the middle of a survey."""

    def __init__(self, logs: OpenLogs, log: Log) -> None:
        self._logs = logs
        self._log = log

    async def step(self) -> None:
        self._logs.leave(self._log)


async def test_a_log_that_is_closed_during_a_survey_counts_once(volume: Volume) -> None:
    async with opened(volume, "orders/0") as one, opened(volume, "orders/1") as two:
        await publish(one, batch(b"a"))
        await publish(two, batch(b"b"))
        for closed in (one, two):
            found = await volume.logs.survey(Interrupted(volume.logs, closed))
            assert found.written.records == found.by_topic["orders"].records == 2
