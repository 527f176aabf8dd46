"""Every family is fed: a broker to which everything happened has counted it."""

from trio.testing import MockClock

from goqueue.http.metrics.families import FAMILIES, Kind
from tests.http.metrics.driven import a_broker, drive
from tests.http.metrics.scraping import scrape

NEVER_HERE = {
    "goqueue_broker_actor_restarts_total",
    "goqueue_broker_loop_stalls_total",
    "goqueue_storage_fsync_errors_total",
    "goqueue_storage_torn_tails_total",
}
"""What a sound broker on a sound disk does not count; each has a test of its own."""


async def test_every_family_is_there_and_every_counter_has_counted(autojump_clock: MockClock) -> None:
    async with a_broker() as (network, client):
        await drive(client)
        await scrape(network)
        found = await scrape(network)
    silent = set()
    for family in FAMILIES:
        name = family.name.removeprefix("goqueue_")
        if family.kind is Kind.HISTOGRAM:
            name += "_count"
        assert found.of(name), family.name
        if family.kind is not Kind.GAUGE and not found.total(name):
            silent.add(family.name)
    assert silent == NEVER_HERE
