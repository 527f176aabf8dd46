"""A consumer that waits and gets nothing says why in its log, and disturbs nobody with it."""

import logging
import re
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.consuming.explaining import ANSWER_SECONDS_MAX
from goqueue.client.link.link import Link
from goqueue.client.link.share import OnAnswer
from goqueue.errors import UnknownMember
from goqueue.net.wire.groups import Because, Why
from tests.client.consuming.world import FakeBroker, consuming, values_of
from tests.client.test_client import Machine, machine

__all__ = ["machine"]


@pytest.fixture(autouse=True)
def talkative(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "goqueue.client")


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(each.levelname, each.getMessage()) for each in caplog.records if "nothing came" in each.getMessage()]


async def test_after_thirty_seconds_of_waiting_it_is_said_once_and_then_ever_more_rarely(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    broker = FakeBroker()
    async with consuming(broker) as consumer:
        assert await consumer.receive(timeout=29) == []
        assert said(caplog) == []
        assert await consumer.receive(timeout=60) == []
        assert said(caplog) == [("WARNING", "group billing: nothing came for 30 s: nobody knows")]
        assert broker.of_kind(Why) == [Why("billing", consumer.member_id)]
        for _ in range(20):
            await consumer.receive(timeout=30)
    assert [text.partition(" s:")[0].rpartition(" ")[2] for _, text in said(caplog)] == ["30", "90", "210", "450"]


async def test_a_loop_that_waits_says_it_too(caplog: pytest.LogCaptureFixture, autojump_clock: MockClock) -> None:
    async with consuming(FakeBroker()) as consumer:
        with trio.move_on_after(31):
            async for _ in consumer:
                raise AssertionError("nothing was published")
    assert len(said(caplog)) == 1


async def test_a_program_that_does_not_wait_is_told_nothing(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    broker = FakeBroker()
    broker.publish(b"a")
    async with consuming(broker, auto_extend=True) as consumer:
        await consumer.receive()
        await trio.sleep(500)
        assert (said(caplog), broker.of_kind(Why)) == ([], [])


async def test_what_comes_ends_the_spell(caplog: pytest.LogCaptureFixture, autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    async with consuming(broker) as consumer:
        for number in range(4):
            await consumer.receive(timeout=25)
            broker.publish(b"%d" % number)
            await consumer.ack(await consumer.receive())
        assert said(caplog) == []
        await consumer.receive(timeout=31)
        assert len(said(caplog)) == 1


async def test_that_nothing_is_left_is_no_reason_to_worry(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    broker = FakeBroker()
    broker.because = Because("nothing is left", {"reason": "nothing_left"})
    async with consuming(broker) as consumer:
        await consumer.receive(timeout=31)
    assert said(caplog) == [("INFO", "group billing: nothing came for 30 s: nothing is left")]


async def test_without_a_connection_nobody_is_asked(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    broker = FakeBroker()
    async with consuming(broker) as consumer:
        link, broker.link = broker.link, None
        await consumer.receive(timeout=60)
        assert broker.of_kind(Why) == []
        broker.link = link
        await consumer.receive(timeout=5)
        assert len(said(caplog)) == 1


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "no answer"])
async def test_a_broker_that_does_not_say_disturbs_nobody(
    is_refused: bool, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """It is given up after a while, and messages come as ever."""
    broker = FakeBroker()
    begun = list[float]()

    async def hang(_: Why) -> None:
        begun.append(trio.current_time())
        try:
            await trio.sleep_forever()
        finally:
            begun.append(trio.current_time())

    broker.answers[Why] = hang
    if is_refused:
        broker.failures[Why] = UnknownMember("who is that? join again")
    async with consuming(broker) as consumer:
        await consumer.receive(timeout=31)
        broker.publish(b"a")
        before = trio.current_time()
        assert values_of(await consumer.receive()) == [b"a"]
        assert trio.current_time() - before < 1
        await trio.sleep(10)
    assert said(caplog) == []
    assert is_refused or begun[1] - begun[0] == ANSWER_SECONDS_MAX


async def test_a_whole_broker_says_what_it_is(
    machine: Machine, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=2)
        await client.publish("orders", b"a", partition=0)
        async with client.consumer("orders", group="billing", visibility_timeout=100, member_id="ann") as ann:
            [message] = await ann.receive()
            async with client.consumer("orders", group="billing", member_id="bob") as bob:
                assert await bob.receive(timeout=31) == []
                [(level, text)] = said(caplog)
                assert level in ("INFO", "WARNING")
                assert re.match("group billing: nothing came for 3[01] s: ", text), "when it is looked at next"
                assert re.fullmatch(
                    "everything that is there is in flight: 1 message, the oldest lease held by ann for 3[12] s, "
                    "ends in (6[89]|70) s",
                    await client.why("billing"),
                )
                await message.ack()
                with pytest.raises(UnknownMember):
                    await client.why("billing", "zoe")
        assert await client.why("billing") == "the group has no members, and nothing waits for it"


async def test_many_consumers_of_one_connection_ask_one_after_the_other(
    machine: Machine,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
) -> None:
    """What they settle meanwhile does not wait behind them for a place."""
    post, under_way = Link._post, list[int]([0])

    def counted(self: Link, request: Any, on_answer: OnAnswer, *, at_once: bool = False) -> None:
        def hear(answer: Any) -> None:
            under_way.append(under_way[-1] - isinstance(request, Why))
            on_answer(answer)

        post(self, request, hear, at_once=at_once)
        under_way.append(under_way[-1] + isinstance(request, Why))

    async def wait_in_vain(client: goqueue.Client) -> None:
        async with client.consumer("orders", group="billing") as consumer:
            assert await consumer.receive(timeout=40) == []

    monkeypatch.setattr(Link, "_post", counted)
    async with machine.both() as client:
        await client.create_topic("orders", partitions=2)
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(wait_in_vain, client)
    assert len(said(caplog)) == 50
    assert max(under_way) == 1


async def test_a_consumer_whose_credit_is_used_up_is_told_so(
    machine: Machine, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """It waits for messages, and cannot even ask for them before it settles what it holds."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            await producer.send_many([b"%d" % number for number in range(5)])
        async with client.consumer(
            "orders", group="billing", member_id="ann", max_in_flight=2, visibility_timeout=600
        ) as consumer:
            held = await consumer.receive()
            assert await consumer.receive(timeout=31) == []
            assert said(caplog) == [
                (
                    "WARNING",
                    "group billing: nothing came for 30 s: ann holds 2 messages unsettled and has not asked for "
                    "more for 30 s (its credit is used up, or its program is busy): 3 messages wait for it",
                )
            ]
            await consumer.ack(held)
            assert len(await consumer.receive()) == 2


async def test_why_is_answered_after_a_restart_of_the_broker(machine: Machine, autojump_clock: MockClock) -> None:
    """Who holds what since when is in the ledgers; who asked last is not, and is noted anew."""
    async with machine.client() as client:
        async with machine.broker():
            await client.create_topic("orders", partitions=1)
            await client.publish("orders", b"a")
            consumer = client.consumer("orders", group="billing", member_id="ann", visibility_timeout=600)
            await consumer.__aenter__()
            [message] = await consumer.receive()
        await trio.sleep(20)
        async with machine.broker():
            await trio.sleep(5)
            because = await client.why("billing", "ann")
            assert because.startswith(
                "everything that is there is in flight: 1 message, the oldest lease held by ann"
            )
            assert "for 25 s" in because
            await message.ack()
            await consumer.__aexit__(None, None, None)


@pytest.mark.parametrize("values", [[b"x"], [b"x" * 1_000]], ids=["small", "compressed"])
async def test_the_key_behind_which_the_most_wait_is_named(
    values: list[bytes], machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("moves", partitions=1)
        async with client.producer("moves") as producer:
            await producer.send_many(values * 4, [b"door 1", b"door 2\n", b"door 1", b"door 2\n"])
            await producer.send_many(values * 50, [b"door 2\n"] * 50)
        async with client.consumer(
            "moves", group="doors", key_order=True, member_id="ann", visibility_timeout=60
        ) as ann:
            first = await ann.receive()
            assert len(first) == 2
            await trio.sleep(5)
            assert await client.why("doors") == (
                "52 messages wait behind earlier ones of the same key, 51 of them behind key 'door 2\\n' (moves/0 "
                "at offset 1), 2 in flight, the oldest lease held by ann for 5.0 s, ends in 56 s"
            )
            await first[1].nack(delay=30)
            assert "51 of them behind key 'door 2\\n'" in await client.why("doors", "ann")
            await first[0].ack()
            [second] = await ann.receive()
            await second.ack()
            assert await client.why("doors") == (
                "51 messages wait behind earlier ones of the same key, 51 of them behind key 'door 2\\n' (moves/0 "
                "at offset 1); 1 message waits for its retry, the next in 30 s"
            )


async def test_a_key_that_cannot_be_read_any_more_is_left_out(machine: Machine, autojump_clock: MockClock) -> None:
    path = "/data/logs/moves/0/00000000000000000000.log"
    async with machine.both() as client:
        await client.create_topic("moves", partitions=1)
        for _ in range(3):
            await client.publish("moves", b"x", key=b"door 1")
        async with client.consumer("moves", group="doors", key_order=True, member_id="ann") as ann:
            [_] = await ann.receive()
            machine.disk.flip_bit(path, machine.disk.size(path) // 6, 3)
            assert await client.why("doors") == (
                "2 messages wait behind earlier ones of the same key, 1 in flight, the oldest lease held by ann "
                "for 0.0 s, ends in 30 s"
            )


# A member without a partition


def left_out(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "has no partition" in each.getMessage()]


@pytest.mark.parametrize(("mode", "cure"), [("queue", "shared=True"), ("stream", "run fewer consumers")])
async def test_a_member_without_a_partition_is_told_so_once_with_the_cure(
    machine: Machine, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock, mode: str, cure: str
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with (
            client.consumer("orders", group="billing", mode=mode) as first,
            client.consumer("orders", group="billing", mode=mode) as second,
        ):
            await trio.sleep(10)
            [text] = left_out(caplog)
            assert f"{second.member_id} has no partition: 2 members share 1 partition" in text
            assert cure in text
            await second.receive(timeout=200)
            assert {each.levelname for each in caplog.records if "has no partition" in each.getMessage()} == {
                "WARNING",
                "INFO",
            }
            assert first.member_id not in "".join(left_out(caplog))
    levels = [each.levelname for each in caplog.records if "has no partition" in each.getMessage()]
    assert levels.count("WARNING") == 1


@pytest.mark.parametrize("options", [{"shared": True}, {"topics": "later"}], ids=str)
async def test_who_shares_all_partitions_or_waits_for_a_topic_is_told_nothing_of_partitions(
    machine: Machine, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock, options: dict[str, Any]
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        asked = {"topics": "orders", "group": "billing", **options}
        async with client.consumer(**asked), client.consumer(**asked):
            await trio.sleep(100)
    assert left_out(caplog) == []
