"""Lone messages of threads take a shortcut, and keep every promise that the ordinary way gives."""

import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

import goqueue
from goqueue import blocking
from goqueue.client.link import direct
from goqueue.client.producing import shortcut
from tests.surfaces.background import LONG, in_background, trio_stands_still, wait_until
from tests.surfaces.cuttingproxy import CuttingProxy, cutting_proxy


@pytest.fixture
def proxy(address: str) -> Iterator[CuttingProxy]:
    with cutting_proxy(address) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: CuttingProxy) -> Iterator[blocking.Client]:
    with blocking.connect(proxy.address) as client:
        client.create_topic("orders", partitions=1)
        yield client


def take_shortcut(client: blocking.Client, producer: blocking.Producer) -> int:
    """Send until it is there; returns the number of messages."""
    for count in range(100_000):
        if client._shortcut._direct is not None:
            return count
        producer.send(b"")
    raise AssertionError("there is none")


def uses(client: blocking.Client) -> int:
    used = client._shortcut._direct
    return 0 if used is None else used.connection.uses


def behind(client: blocking.Client, count: int) -> list[bytes | None]:
    """The values of the messages from there on."""
    return [message.value for message in client.read("orders", start=count, partition=0, end="latest")]


def test_a_thread_that_sends_one_message_at_a_time_gets_the_shortcut(client: blocking.Client) -> None:
    with client.producer("orders") as producer:
        count = take_shortcut(client, producer)
        assert count >= shortcut.LONE_MIN
        with trio_stands_still(client):
            assert producer.send(b"by itself") == ("orders", 0, count)
        assert behind(client, count) == [b"by itself"]


def test_it_overtakes_nothing_whatever_else_sends(client: blocking.Client) -> None:
    """G3"""
    with client.producer("orders", acks="leader") as producer:
        count = take_shortcut(client, producer)
        for number in range(0, 600, 6):
            producer.send(b"%d" % number)
            producer.send(b"%d" % (number + 1), key=b"k", headers={"a": b"1"}, priority="high")
            producer.send_nowait(b"%d" % (number + 2))
            producer.send(b"%d" % (number + 3))
            producer.send_many_nowait([b"%d" % (number + 4)])
            producer.send(b"%d" % (number + 5))
        assert uses(client) > 100
    assert behind(client, count) == [b"%d" % number for number in range(600)]


def test_keys_go_where_they_went_before_and_others_are_spread(client: blocking.Client) -> None:
    """G4"""
    client.create_topic("wide", partitions=5)
    with client.producer("wide") as producer:
        before = {key: producer.send(b"", key=key).partition for key in (b"a", b"b", b"c", b"d")}
        take_shortcut(client, producer)
        assert {key: producer.send(b"", key=key).partition for key in before} == before
        assert {producer.send(b"").partition for _ in range(5)} == set(range(5))
    assert {client.publish("wide", b"", key=key).partition for key in before} == set(before.values())


@pytest.mark.parametrize("loss", ["lose_request", "lose_answer"])
def test_a_message_whose_connection_is_lost_is_there_once(
    client: blocking.Client, proxy: CuttingProxy, loss: str
) -> None:
    """G11: the sender repeats it under the same id and sequence, and what comes later follows it."""
    with client.producer("orders") as producer:
        count = take_shortcut(client, producer)
        producer.send(b"0")
        setattr(proxy, loss, True)
        assert producer.send(b"1") == ("orders", 0, count + 1)
        assert not getattr(proxy, loss)
        assert client._shortcut._direct is None
        producer.send_nowait(b"2")
        assert producer.send(b"3").offset == count + 3
    assert behind(client, count) == [b"0", b"1", b"2", b"3"]


def test_losses_at_random_moments_lose_double_and_reorder_nothing(
    client: blocking.Client, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G1, G3, G11"""
    monkeypatch.setattr(shortcut, "LOOK_EACH_SECONDS", 0.01)
    chance = random.Random(4711)
    sent: list[bytes] = []
    with client.producer("orders", acks="leader") as producer:
        count = take_shortcut(client, producer)
        for _ in range(15):
            for _ in range(chance.randrange(40)):
                sent.append(b"%d" % len(sent))
                producer.send(sent[-1])
            setattr(proxy, chance.choice(["lose_request", "lose_answer"]), True)
    assert behind(client, count) == sent


def test_ctrl_c_while_the_answer_is_awaited_leaves_the_message_to_the_sender(
    client: blocking.Client, proxy: CuttingProxy
) -> None:
    with client.producer("orders") as producer:
        count = take_shortcut(client, producer)
        proxy.hold_answers = True

        def interrupt() -> None:
            wait_until(lambda: proxy.held > 0)
            proxy.hold_answers = False
            os.kill(os.getpid(), signal.SIGINT)

        interrupting = in_background(interrupt)
        with pytest.raises(KeyboardInterrupt):
            producer.send(b"0")
        interrupting.ended()
        assert producer.send(b"1").offset == count + 1
    assert behind(client, count) == [b"0", b"1"]


def test_an_answer_that_does_not_come_is_left_to_the_sender(
    client: blocking.Client, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "ANSWER_SECONDS_MAX", 0.05)
    with client.producer("orders") as producer:
        count = take_shortcut(client, producer)
        proxy.hold_answers = True
        assert producer.send(b"0").offset == count
        assert proxy.held == 1
    assert behind(client, count) == [b"0"]


class InterruptAt:
    """Raises KeyboardInterrupt at the n-th line of the shortcut's own code, as Ctrl-C may."""

    FILES = (shortcut.__file__, direct.__file__)

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, _: Any) -> "InterruptAt | None":
        if frame.f_code.co_filename not in self.FILES:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def test_ctrl_c_at_any_line_neither_loses_nor_doubles_what_comes_later(
    client: blocking.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sequence that was used and not counted would let the broker take the next message for a repeat."""
    monkeypatch.setattr(shortcut, "LOOK_EACH_SECONDS", 0.02)
    with client.producer("orders", acks="leader") as producer:
        line, is_over = 1, False
        while not is_over:
            count = client.topic("orders").partitions[0].end
            count += take_shortcut(client, producer)
            used = client._shortcut._direct
            interrupting = InterruptAt(line)
            sys.settrace(interrupting)
            try:
                with suppress(KeyboardInterrupt):
                    producer.send(b"interrupted")
            finally:
                sys.settrace(None)
            published = producer.send(b"next")
            found = behind(client, count)
            assert found in ([b"interrupted", b"next"], [b"next"])
            assert published.offset == count + len(found) - 1
            is_over = interrupting.left > 0 and used is not None and used.connection.uses > 0
            line += interrupting.left <= 0  # else it was closed just before, for want of use
        assert 30 < line < 500


def test_refusals_are_heard_as_on_the_ordinary_way(client: blocking.Client) -> None:
    with client.producer("orders") as producer:
        take_shortcut(client, producer)
        client.alter_topic("orders", {"max_message_bytes": 1_024})
        with pytest.raises(goqueue.TooLarge, match="allows 1024"):
            producer.send(bytes(5_000))
        with pytest.raises(goqueue.InvalidMessage):
            producer.send("text")  # type: ignore[arg-type]
        take_shortcut(client, producer)
        client.delete_topic("orders")
        with pytest.raises(goqueue.UnknownTopic):
            producer.send(b"")
    client.create_topic("orders", partitions=1)
    assert client.publish("orders", b"").offset == 0


def test_a_time_limit_holds_for_it_too(client: blocking.Client) -> None:
    with client.producer("orders") as producer:
        take_shortcut(client, producer)
        before = uses(client)
        with trio_stands_still(client), pytest.raises(TimeoutError), blocking.fail_after(0.01):
            producer.send(b"")
        assert uses(client) == before


def test_many_threads_with_a_shortcut_keep_each_thread_s_order(client: blocking.Client) -> None:
    """G3"""

    def send(producer: blocking.Producer, name: int) -> None:
        for number in range(200):
            producer.send(b"%d %d" % (name, number))

    with client.producer("orders", acks="leader") as producer:
        count = take_shortcut(client, producer)
        for each in [in_background(lambda name=name: send(producer, name)) for name in range(3)]:  # type: ignore[misc]
            assert each.ended().error is None
    found = behind(client, count)
    assert len(found) == 600
    for name in range(3):
        mine = [value for value in found if value is not None and value.startswith(b"%d " % name)]
        assert mine == [b"%d %d" % (name, number) for number in range(200)]


def test_a_child_of_the_process_does_not_use_it_and_the_parent_goes_on(client: blocking.Client) -> None:
    with client.producer("orders") as producer:
        count = take_shortcut(client, producer)
        pid = os.fork()
        if pid == 0:
            try:
                producer.send(b"of the child")
            except goqueue.Closed as error:
                os._exit(0 if "connect anew in the child" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        before = uses(client)
        assert producer.send(b"of the parent").offset == count
        assert uses(client) == before + 1


def test_a_thread_that_sends_while_the_client_is_closed_hears_of_it(proxy: CuttingProxy) -> None:
    with blocking.connect(proxy.address) as client:
        client.create_topic("orders", partitions=1)
        for _ in range(100_000):
            client.publish("orders", b"")
            if client._shortcut._direct is not None:
                break
        proxy.hold_answers = True
        sending = in_background(lambda: client.publish("orders", b""))
        wait_until(lambda: proxy.held > 0)
    assert isinstance(sending.ended().error, goqueue.Closed)


def test_it_is_closed_when_nobody_uses_it(client: blocking.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortcut, "LOOK_EACH_SECONDS", 0.01)
    with client.producer("orders") as producer:
        take_shortcut(client, producer)
        wait_until(lambda: client._shortcut._direct is None)
        with blocking.fail_after(LONG):
            producer.send(b"")
