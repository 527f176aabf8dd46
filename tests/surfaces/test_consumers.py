"""Consumers without Trio: in threads and in asyncio, with the same names and the same promises."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import goqueue
from goqueue import aio, blocking
from tests.surfaces.background import in_background

COUNT = 100


def fill(client: blocking.Client, count: int = COUNT) -> list[bytes]:
    values = [b"%d" % number for number in range(count)]
    with client.producer("orders") as producer:
        producer.send_many(values)
    return values


# Threads


def test_what_was_received_is_acked_and_the_next_consumer_goes_on(client: blocking.Client) -> None:
    values = fill(client)
    with client.consumer("orders", group="billing") as consumer:
        first = consumer.receive(10, timeout=10)
        consumer.ack(first)
    with client.consumer("orders", group="billing") as consumer:
        rest: list[bytes] = []
        while len(rest) < COUNT - 10:
            messages = consumer.receive(timeout=10)
            rest += [message.value for message in messages]
            consumer.ack(messages)
        assert [*(message.value for message in first), *rest] == values
        assert consumer.receive(timeout=0) == []
    assert client.group("billing").lag == 0


def test_a_loop_hands_out_messages_that_settle_themselves(client: blocking.Client) -> None:
    fill(client, 5)
    client.publish("orders", b"flagged", headers={"a": b"1"})
    with client.consumer("orders", group="billing") as consumer:
        words = iter(["ack", "ack", "reject", "nack", "release", "extend"])
        for message, word in zip(consumer, words, strict=False):
            assert isinstance(message, blocking.DeliveredMessage)
            assert str(message.receipt).startswith("billing:orders:0:")
            getattr(message, word)(*{"extend": [90]}.get(word, []))
            if word == "extend":
                assert (message.value, message.headers) == (b"flagged", {"a": b"1"})
                message.ack()
                break
        [released] = consumer.receive(1, timeout=10)
        assert (released.offset, released.attempt) == (4, 1)
        released.ack()


def test_threads_share_a_consumer_and_each_message_is_handed_out_once(client: blocking.Client) -> None:
    values = fill(client)
    with client.consumer("orders", group="billing") as consumer, ThreadPoolExecutor(4) as pool:

        def work(_: int) -> bytes:
            message = next(consumer)
            message.ack()
            return message.value

        assert sorted(pool.map(work, range(COUNT))) == sorted(values)


def test_a_receive_that_is_given_up_loses_nothing(client: blocking.Client) -> None:
    with client.consumer("orders", group="billing") as consumer:
        with pytest.raises(TimeoutError), blocking.fail_after(0.2):
            consumer.receive()
        client.publish("orders", b"late")
        [message] = consumer.receive(timeout=10)
        assert (message.value, message.attempt) == (b"late", 1)


def test_what_a_loop_had_ahead_is_given_back_uncounted(client: blocking.Client) -> None:
    fill(client)
    with client.consumer("orders", group="billing") as consumer:
        next(consumer).ack()
    with client.consumer("orders", group="billing") as consumer:
        message = next(consumer)
        assert (message.offset, message.attempt) == (1, 1)


def test_the_shelf_and_the_message_of_each_thread_are_in_hand_and_what_was_passed_over_is_not(
    client: blocking.Client,
) -> None:
    """So their leases are renewed."""
    fill(client, 4)

    def offsets_in_hand(consumer: blocking.Consumer) -> list[int]:
        return sorted(message.offset for message in consumer._in_hand())

    with client.consumer("orders", group="billing") as consumer:
        next(consumer)
        next(consumer)
        assert offsets_in_hand(consumer) == [1, 2, 3]
        elsewhere = in_background(lambda: (next(consumer), offsets_in_hand(consumer))).ended()
        assert elsewhere.value[1] == [1, 2, 3]  # type: ignore[index]
        assert offsets_in_hand(consumer) == [1, 3]  # that thread has ended
    with client.consumer("orders", group="others", auto_extend=False) as consumer:
        next(consumer)
        assert offsets_in_hand(consumer) == [1, 2, 3]


def test_what_was_lost_on_the_shelf_is_not_handed_out(client: blocking.Client) -> None:
    """G7: the broker said so when the lease was to be renewed, and another consumer may have it."""
    fill(client, 3)
    with client.consumer("orders", group="billing") as consumer:
        next(consumer)
        lost, _ = consumer._buffer.items
        lost.delivery.settle([lost.offset])
        assert next(consumer).offset == 2


def test_errors_come_as_themselves_and_after_leaving_everything_is_closed(client: blocking.Client) -> None:
    with pytest.raises(goqueue.InvalidConfig, match="stream"):
        client.consumer("orders", group="billing", mode="stream", shared=True)
    fill(client, 1)
    with client.consumer("orders", group="billing", max_deliveries=5) as consumer:
        with pytest.raises(goqueue.GroupConflict), client.consumer("orders", group="billing", max_deliveries=7):
            raise AssertionError("it came in")
        [message] = consumer.receive(timeout=10)
    for call in (consumer.receive, message.ack, lambda: next(consumer)):
        with pytest.raises(goqueue.Closed):
            call()


def test_groups_are_looked_at_and_changed(client: blocking.Client) -> None:
    fill(client, 3)
    with client.consumer("orders", group="billing") as consumer:
        consumer.ack(consumer.receive(timeout=10))
    assert [group.name for group in client.groups()] == ["billing"]
    assert client.why("billing") == "the group has no members, and nothing waits for it"
    assert client.alter_group("billing", {"max_deliveries": 9}).settings["max_deliveries"] == 9
    assert client.reset_group("billing", "earliest") == [goqueue.ResetPartition("orders", 0, 3, 0)]
    client.delete_group("billing")
    with pytest.raises(goqueue.UnknownGroup):
        client.group("billing")


# asyncio


def test_asyncio_receives_iterates_and_settles(client: blocking.Client, address: str) -> None:
    values = fill(client)

    async def main() -> list[bytes]:
        seen = []
        async with aio.connect(address) as mine:
            async with mine.consumer("orders", group="billing") as consumer:
                first = await consumer.receive(10, timeout=10)
                await consumer.ack(first)
                seen += [message.value for message in first]
                async for message in consumer:
                    assert isinstance(message, aio.DeliveredMessage)
                    await message.ack()
                    seen.append(message.value)
                    if len(seen) == COUNT:
                        break
            assert (await mine.group("billing")).lag == 0
            with pytest.raises(goqueue.Closed):
                await consumer.receive()
            with pytest.raises(goqueue.Closed):
                await first[0].ack()
        return seen

    assert asyncio.run(main()) == values


def test_a_cancelled_receive_of_asyncio_loses_nothing(client: blocking.Client, address: str) -> None:
    async def main() -> None:
        async with aio.connect(address) as mine, mine.consumer("orders", group="billing") as consumer:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await consumer.receive()
            await mine.publish("orders", b"late")
            [message] = await consumer.receive(timeout=10)
            assert (message.value, message.attempt) == (b"late", 1)
            with pytest.raises(goqueue.InvalidMessage, match="reason="):
                await message.reject("\ud800")
            await message.nack(delay=0, reason="again")
            [message] = await consumer.receive(timeout=10)
            assert message.attempt == 2

    asyncio.run(main())


def test_asyncio_looks_at_groups_and_changes_them(client: blocking.Client, address: str) -> None:
    fill(client, 3)

    async def main() -> None:
        async with aio.connect(address) as mine:
            async with mine.consumer("orders", group="billing") as consumer:
                await consumer.reject(await consumer.receive(timeout=10), "no")
                while (await mine.group("billing")).lag:
                    pass
            assert (await mine.redrive("orders", dry_run=True)).redriven == 3
            assert [each.offset for each in await mine.dead_letters("orders", reason="no")] == [0, 1, 2]
            assert (await mine.dismiss("orders", dry_run=True)).dismissed == 3
            assert (await mine.count_dead_letters("orders")).waiting == 3
            assert [each.name for each in await mine.groups()] == ["billing"]
            assert await mine.reset_group("billing", 1, dry_run=True) == [goqueue.ResetPartition("orders", 0, 3, 1)]
            assert (await mine.alter_group("billing", {"lanes": "strict"})).settings["lanes"] == "strict"
            with pytest.raises(goqueue.UnknownMember):
                await mine.why("billing", "nobody")
            await mine.delete_group("billing")

    asyncio.run(main())


def test_threads_look_at_dead_letters_and_decide(client: blocking.Client) -> None:
    assert client.dead_letters("orders") == []
    assert client.count_dead_letters("orders").total == 0
    fill(client, 5)
    with client.consumer("orders", group="billing") as consumer:
        consumer.reject(consumer.receive(timeout=10), "no address")
        while client.group("billing").lag:
            pass
    page = client.dead_letters("orders", limit=2)
    second = client.dead_letters("orders", limit=3, after=page.next)
    assert [letter.offset for letter in (*page, *second)] == [0, 1, 2, 3, 4]
    assert (page.next, second.next) == ((0, 1), None)
    assert (page[0].state, page[0].group, page[0].reason) == ("waiting", "billing", "no address")
    assert (page[0].attempts, page[0].origin_offset, page[0].decided_at) == (1, 0, None)
    done = client.redrive("orders", offsets=[1])
    assert done == goqueue.Redriven(1, 4, 1, 0, "")
    assert client.dismiss("orders", offsets=[2], note="known") == goqueue.Dismissed(1, 3, 1, 1, "")
    [sent] = client.dead_letters("orders", state="redriven")
    [dismissed] = client.dead_letters("orders", state="dismissed")
    assert (sent.offset, sent.sent_to, sent.note) == (1, "orders", "")
    assert (dismissed.offset, dismissed.sent_to, dismissed.note) == (2, None, "known")
    assert page[0].died_at <= (sent.decided_at or 0) <= (dismissed.decided_at or 0)
    counts = client.count_dead_letters("orders")
    assert (counts.waiting, counts.redriven, counts.dismissed) == (3, 1, 1)
    assert client.redrive("orders", group="audit").why.startswith(
        "3 dead letters were looked at: 3 belong to another group (billing)"
    )
    for ask in (client.dead_letters, client.count_dead_letters, client.redrive, client.dismiss):
        with pytest.raises(goqueue.UnknownTopic):
            ask("nothing")


SHARED_OUT = {"assignor": "range", "rebalance": "eager"}


def test_the_first_member_says_how_partitions_are_shared_out(client: blocking.Client) -> None:
    with client.consumer("orders", group="billing", assignor="range", rebalance="eager"):
        assert SHARED_OUT.items() <= client.group("billing").settings.items()
        with pytest.raises(goqueue.GroupConflict, match="assignor"):
            client.consumer("orders", group="billing", assignor="sticky").__enter__()
    with pytest.raises(goqueue.InvalidConfig, match="assignor"):
        client.consumer("orders", group="billing", assignor="fair")


def test_asyncio_s_first_member_says_how_partitions_are_shared_out(client: blocking.Client, address: str) -> None:
    async def main() -> None:
        async with (
            aio.connect(address) as mine,
            mine.consumer("orders", group="billing", assignor="range", rebalance="eager"),
        ):
            assert SHARED_OUT.items() <= (await mine.group("billing")).settings.items()
            with pytest.raises(goqueue.GroupConflict, match="rebalance"):
                await mine.consumer("orders", group="billing", rebalance="cooperative").__aenter__()
            with pytest.raises(goqueue.InvalidConfig, match="rebalance"):
                mine.consumer("orders", group="billing", rebalance="lazy")

    asyncio.run(main())
