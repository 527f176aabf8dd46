"""`GET /metrics` of a broker in memory."""

from trio.testing import MockClock

import goqueue
from goqueue.http.metrics.families import FAMILIES
from tests.http.metrics.scraping import scrape


async def test_what_happens_is_counted(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client:
        await client.create_topic("orders", partitions=2)
        async with client.consumer("orders", group="billing") as consumer:
            await client.publish("orders", b"x")
            [message] = await consumer.receive()
            before = await scrape(machine.network)
            await message.ack()
        after = await scrape(machine.network)
    assert before.value("broker_messages_published_total", topic="orders") == 1
    assert before.total("consumer_lag", group="billing", topic="orders") == 1
    assert before.value("consumer_in_flight", group="billing", topic="orders") == 1
    assert before.value("lane_in_flight", group="billing", priority="normal") == 1
    assert after.total("consumer_lag", group="billing", topic="orders") == 0
    assert after.value("consumer_acked_total", group="billing") == 1


async def test_both_formats_hold_the_same_and_only_what_the_table_has(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client:
        await client.create_topic("orders")
        async with client.consumer("orders", group="billing"):
            await client.publish("orders", b"x")
        await scrape(machine.network)  # from now on there is an HTTP request to tell of
        old, new = await scrape(machine.network), await scrape(machine.network, openmetrics=True)
    assert {(each.name, frozenset(each.labels.items())) for each in old.samples} == {
        (each.name, frozenset(each.labels.items())) for each in new.samples
    }
    labels = {family.name: set(family.labels) for family in FAMILIES}
    for each in old.samples:
        name = each.name if each.name in labels else each.name.rpartition("_")[0]
        assert set(each.labels) - {"le"} == labels[name], each
