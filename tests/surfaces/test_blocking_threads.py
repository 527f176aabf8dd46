"""`goqueue.blocking` from many threads, closed under way, interrupted, timed out and forked."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import goqueue
from goqueue import blocking
from goqueue.portal.call import Call
from goqueue.portal.thread import TrioThread
from goqueue.portal.waiting import ask_now
from tests.surfaces.background import (
    LONG,
    Outcome,
    calls_under_way,
    client_and_producer_without_a_broker,
    in_background,
    is_being_left,
    wait_until,
)

# Threads


def test_many_threads_use_one_client(client: blocking.Client) -> None:
    """G3, G4: every message is there once; those of each thread are in its order."""

    def publish(name: int) -> None:
        for number in range(20):
            client.publish("orders", b"%d %d" % (name, number))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(publish, range(8)))
    found = [message.value for message in client.read("orders", end="latest")]
    assert len(found) == 160
    for name in range(8):
        mine = [value for value in found if value.startswith(b"%d " % name)]
        assert mine == [b"%d %d" % (name, number) for number in range(20)]


def test_many_threads_use_one_producer(client: blocking.Client) -> None:
    with client.producer("orders") as producer, ThreadPoolExecutor(8) as threads:
        results = threads.map(lambda name: producer.send_many([b"%d" % name] * 100), range(8))
        offsets = [each.offset for published in results for each in published]
    assert sorted(offset for offset in offsets if offset is not None) == list(range(800))


def test_threads_that_share_a_reader_share_its_messages(client: blocking.Client) -> None:
    with client.producer("orders") as producer:
        for _ in range(20):
            producer.send_many([bytes(1_000)] * 100)
    reader = client.read("orders", end="latest")
    with ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(lambda _: [message.offset for message in reader], range(4)))
    assert sorted(offset for part in parts for offset in part) == list(range(2_000))
    assert all(part == sorted(part) for part in parts)


def test_all_clients_share_one_thread_and_the_last_one_ends_it(address: str) -> None:
    def own_threads() -> int:
        return sum(thread.name == "goqueue" for thread in threading.enumerate())

    assert own_threads() == 0
    with blocking.connect(address) as first:
        with blocking.connect(address) as second:
            assert first.topics() == second.topics()
            assert own_threads() == 1
        assert own_threads() == 1
        assert first.topics() == []
    assert own_threads() == 0
    with blocking.connect(address) as third:
        assert third.topics() == []


# Closing


def test_a_closed_client_says_so(address: str) -> None:
    with blocking.connect(address) as client:
        client.create_topic("orders", 1)
        client.publish("orders", b"")
        reader = client.read("orders")
        with client.producer("orders") as producer:
            pass
        with pytest.raises(goqueue.Closed):
            producer.send(b"")
        with pytest.raises(goqueue.Closed):
            producer.send_nowait(b"")
    for call in (client.topics, lambda: client.read("orders"), lambda: next(reader), producer.flush):
        with pytest.raises(goqueue.Closed):
            call()


def test_calls_under_way_hear_that_the_client_is_closed(address: str) -> None:
    """Also when the thread goes on, for another client."""
    with blocking.connect(address) as other:
        with blocking.connect(address) as client:
            client.create_topic("orders", 1)
            waiting = [in_background(lambda: next(client.read("orders"))) for _ in range(3)]
            wait_until(lambda: calls_under_way(client) == 3)
        for each in waiting:
            assert isinstance(each.ended().error, goqueue.Closed)
        assert len(other.topics()) == 1


def test_a_reader_that_is_closed_wakes_those_who_wait_for_it(client: blocking.Client) -> None:
    with client.read("orders") as reader:
        waiting = in_background(lambda: next(reader))
        wait_until(lambda: calls_under_way(client) == 1)
    assert isinstance(waiting.ended().error, goqueue.Closed)
    with pytest.raises(goqueue.Closed):
        next(reader)
    assert client.publish("orders", b"").offset == 0


def test_a_producer_whose_client_is_closed_says_so_when_it_is_left(address: str) -> None:
    """Unless it is left by an error, which is more to the point."""
    with blocking.connect(address) as client:
        client.create_topic("orders", 1)
        producers = [client.producer("orders") for _ in range(2)]
        for producer in producers:
            producer.__enter__()
    with pytest.raises(goqueue.Closed):
        producers[0].__exit__(None, None, None)
    producers[1].__exit__(ValueError, ValueError(), None)


def test_closing_ends_a_producer_that_is_just_being_left() -> None:
    with client_and_producer_without_a_broker() as (_, producer):
        producer.send_nowait(b"to nobody")
        leaving = in_background(lambda: producer.__exit__(None, None, None))
        wait_until(lambda: is_being_left(producer))
    assert isinstance(leaving.ended().error, goqueue.Closed)


# Waiting that ends


def interrupt_once(condition: Callable[[], bool]) -> Outcome:
    def interrupt() -> None:
        wait_until(condition)
        os.kill(os.getpid(), signal.SIGINT)

    return in_background(interrupt)


def test_ctrl_c_ends_a_call_and_the_client_lives(client: blocking.Client) -> None:
    reader = client.read("orders")
    interrupting = interrupt_once(lambda: calls_under_way(client) == 1)
    with pytest.raises(KeyboardInterrupt):
        next(reader)
    interrupting.ended()
    wait_until(lambda: calls_under_way(client) == 0)
    client.publish("orders", b"after")
    assert next(reader).value == b"after"


def test_ctrl_c_while_a_producer_waits_for_its_last_messages_leaves_nothing_behind() -> None:
    with client_and_producer_without_a_broker() as (client, producer):
        producer.send_nowait(b"to nobody")
        interrupting = interrupt_once(lambda: is_being_left(producer))
        with pytest.raises(KeyboardInterrupt):
            producer.__exit__(None, None, None)
        assert producer._host.is_over
        interrupting.ended()
        assert calls_under_way(client) == 0
        with pytest.raises(goqueue.Closed):
            producer.send_nowait(b"too late")


def test_a_time_limit_ends_a_call_and_no_message_is_lost_by_it(client: blocking.Client) -> None:
    reader = client.read("orders")
    with pytest.raises(TimeoutError, match="fail_after"), blocking.fail_after(0.05):
        next(reader)
    client.publish("orders", b"after")
    with blocking.fail_after(LONG):
        assert next(reader).value == b"after"


def test_the_shorter_of_two_time_limits_holds() -> None:
    """Nobody listens there; the call itself would go on for 30 seconds."""
    with blocking.connect("ws://127.0.0.1:9") as client, blocking.fail_after(0.02):
        with pytest.raises(TimeoutError), blocking.fail_after(3_600):
            client.topics()
        with pytest.raises(TimeoutError):
            client.topics()


# Processes


def test_in_a_forked_child_every_use_says_what_to_do(address: str, client: blocking.Client) -> None:
    """What was opened by the parent is the parent's; the child may connect anew, and the parent goes on."""
    client.publish("orders", b"a")
    client.publish("orders", b"b")
    reader, producer = client.read("orders"), client.producer("orders")
    next(reader)
    with producer:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if says_what_to_do(address, client, reader, producer) else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert producer.send(b"of the parent").offset == 2
    assert next(reader).value == b"b"


def says_what_to_do(
    address: str, client: blocking.Client, reader: blocking.Reader, producer: blocking.Producer
) -> bool:
    uses: list[Callable[[], object]] = [
        client.topics,
        lambda: client.read("orders"),
        lambda: next(reader),
        lambda: producer.send(b""),
        lambda: producer.send_nowait(b""),
    ]
    for use in uses:
        try:
            use()
        except goqueue.Closed as error:
            if "connect anew in the child" not in str(error):
                return False
        else:
            return False
    producer.__exit__(None, None, None)
    with blocking.connect(address) as own:
        return own.topic("orders").partitions[0].end == 2


FORGETFUL = """
import atexit, sys, threading
atexit.register(lambda: print(*[thread.name for thread in threading.enumerate()]))  # the last of all
import goqueue
client = goqueue.blocking.connect(sys.argv[1]).__enter__()
client.create_topic("orders")
producer = client.producer("orders")
producer.__enter__()
threading.Thread(target=lambda: next(client.read("orders"), None), daemon=True).start()
"""


def test_a_program_that_ends_without_closing_ends_the_client_s_thread(address: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, address], capture_output=True, text=True, timeout=LONG, check=True
    )
    assert done.stdout.split()[0] == "MainThread"
    assert "goqueue" not in done.stdout


def test_a_call_in_the_client_s_own_thread_is_refused(client: blocking.Client) -> None:
    """It would wait for itself."""
    with pytest.raises(RuntimeError, match="would wait for itself"):
        ask_now(client._host, client.topics)


def test_a_call_that_the_thread_never_came_to_hears_of_its_end() -> None:
    """G15: nobody waits for ever, whatever the thread was doing when it ended."""
    settled = threading.Event()
    call: Call[None] = Call(settled.set)
    thread = TrioThread("goqueue of a test")
    thread.start()
    thread.begin(call, lambda: None)
    assert not settled.is_set()
    thread.stop()
    with pytest.raises(goqueue.Closed):
        call.result()
    with pytest.raises(goqueue.Closed):
        thread.begin(call, lambda: None)
