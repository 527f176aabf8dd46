"""Clients of a topic that lost a partition: they go on with the others, and with it once it is restored."""

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.core.topics.loss import RESTART_GAP
from goqueue.testing import machine as running_machine
from goqueue.testing.memory import Machine
from tests.actors.topics.test_lost import remove_tree

FOLDER = "/data/logs/orders/1"


async def lose_partition(machine: Machine) -> None:
    await machine.stop()
    remove_tree(machine.disk, FOLDER)
    await machine.start()


async def test_a_producer_without_keys_goes_round_a_lost_partition(autojump_clock: MockClock) -> None:
    """Both one that knew the topic before the loss and one that comes later; keys and numbers are refused."""
    async with running_machine(seed=1) as machine, machine.client() as client:
        await client.create_topic("orders", partitions=3)
        async with client.producer("orders") as producer:
            await producer.send_many([b"before"] * 3)
            await lose_partition(machine)
            sent = [await producer.send(b"%d" % number) for number in range(12)]
        sent += [await client.publish("orders", b"%d" % number) for number in range(12)]
        assert {each.partition for each in sent} == {0, 2}
        with pytest.raises(goqueue.PartitionLost, match="restore-partition orders/1"):
            await client.publish("orders", b"there", partition=1)
        view = (await client.topic("orders")).partitions[1]
        assert isinstance(view.error, goqueue.PartitionLost)
        assert (await client.stats())["partitions.lost"] == 1
        await client.purge("orders")


async def test_a_topic_that_lost_all_its_partitions_refuses_at_once(autojump_clock: MockClock) -> None:
    async with running_machine(seed=1) as machine, machine.client() as client:
        await client.create_topic("orders", partitions=2)
        async with client.producer("orders") as producer:
            await producer.send(b"before")
            await machine.stop()
            remove_tree(machine.disk, "/data/logs/orders")
            await machine.start()
            with trio.fail_after(20), pytest.raises(goqueue.PartitionLost):
                await producer.send(b"after")


@pytest.mark.parametrize("start", ["earliest", "latest"])
async def test_a_group_goes_on_with_the_others_and_with_the_lost_one_once_it_is_restored(
    autojump_clock: MockClock, start: str
) -> None:
    """G3, G5: what its offsets file says of the lost partition is kept while nobody else knows."""
    async with running_machine(seed=2) as machine, machine.client() as client:
        await client.create_topic("orders", partitions=2)
        async with client.consumer("orders", group="billing", start=start) as consumer:
            await client.publish("orders", b"zero", partition=1)
            for _ in range(3):
                await client.publish("orders", b"one", partition=1)
            acked = 0
            while acked < 4:
                received = await consumer.receive(timeout=5)
                await consumer.ack(received)
                acked += len(received)
            await trio.sleep(6)
            await lose_partition(machine)
            await client.publish("orders", b"others", partition=0)
            others = await consumer.receive(timeout=5)
            assert [message.value for message in others] == [b"others"]
            await consumer.ack(others)
            await trio.sleep(20)
            plan = await client.restore_partition("orders", 1)
            assert (plan.highest, plan.named_by) == (4, "/data/offsets/billing/offsets.json")
            done = await client.restore_partition("orders", 1, accept_loss=True)
            assert done.is_restored
            assert done.start == 4 + RESTART_GAP
            await trio.sleep(10)
            published = await client.publish("orders", b"new", partition=1)
            assert published.offset == done.start
            [message] = await consumer.receive(timeout=20)
            assert message.value == b"new"
            await consumer.ack([message])
        view = [each for each in (await client.group("billing")).partitions if each.partition == 1]
        assert [each.lag for each in view] == [0]


async def test_dead_letters_and_a_backup_name_offsets_too(autojump_clock: MockClock) -> None:
    """G3"""
    async with running_machine(seed=3) as machine, machine.client() as client:
        await client.create_topic("orders", partitions=2)
        for number in range(5):
            await client.publish("orders", b"%d" % number, partition=1)
        async with client.consumer("orders", group="billing") as consumer:
            messages = await consumer.receive(timeout=5)
            await messages[3].reject("no")
            await trio.sleep(2)
        await client.delete_group("billing")
        await lose_partition(machine)
        plan = await client.restore_partition("orders", 1)
        assert (plan.highest, plan.named_by) == (3, "a dead letter in orders.dlq")
        assert (await client.restore_partition("orders", 1, at_least=100)).highest == 100
