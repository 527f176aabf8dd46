"""A broker without a descriptor to open files with: it goes on with what is open, and refuses the rest for now."""

import trio
from trio.testing import MockClock

import goqueue
from goqueue.errors import TooManyFiles
from goqueue.testing import machine as running_machine


async def test_publishing_and_consuming_go_on_and_what_needs_a_file_works_later(autojump_clock: MockClock) -> None:
    """Neither the node nor a partition ends; every message arrives once there are descriptors again."""
    async with running_machine(seed=4) as machine, machine.client() as client:
        config = {"segment_bytes": 65_536}
        await client.create_topic("orders", partitions=2, config=config)
        async with (
            client.producer("orders") as producer,
            client.consumer("orders", group="billing") as consumer,
        ):
            for number in range(20):
                await producer.send(b"before %d" % number)
            machine.disk.faults.no_descriptors = True
            made = await client.create_topic("others")
            assert all(isinstance(view.error, TooManyFiles) and view.error.retryable for view in made.partitions)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(producer.send_many, [bytes(5_000)] * 30)
                await trio.sleep(3)
                machine.disk.faults.no_descriptors = False
            received: list[goqueue.DeliveredMessage] = []
            while len(received) < 50:
                messages = await consumer.receive(timeout=10)
                assert messages
                await consumer.ack(messages)
                received += messages
        assert sorted({(each.partition, each.offset) for each in received}) == sorted(
            (each.partition, each.offset) for each in received
        )
        assert (await client.publish("others", b"first")).offset == 0
        assert all(view.error is None for topic in await client.topics() for view in topic.partitions)
