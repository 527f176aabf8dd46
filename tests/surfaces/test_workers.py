"""Workers without Trio: the same rules; what differs is where handlers run and how they end."""

import asyncio
import inspect
import signal
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any

import pytest
import trio

import goqueue
from goqueue import aio, blocking
from tests.surfaces.background import in_background, wait_until
from tests.surfaces.test_consumers import fill

SURFACES: list[ModuleType] = [blocking, aio]
SECONDS_MAX = 20.0


# Three surfaces, one worker


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.__name__)
def test_a_worker_has_the_same_parameters_everywhere(surface: ModuleType) -> None:
    """The types, too, but for that of the handler: `worker` shows which kind its surface calls."""
    assert inspect.signature(surface.Worker) == inspect.signature(goqueue.Worker)
    declared = dict(inspect.signature(goqueue.Worker).parameters)
    shown = dict(inspect.signature(surface.worker).parameters)
    handler = shown["handler"]
    assert shown | {"handler": handler.replace(annotation=declared["handler"].annotation)} == declared
    assert inspect.signature(surface.Worker.stop) == inspect.signature(goqueue.Worker.stop)
    assert list(inspect.signature(surface.Worker.run).parameters) == ["self"]
    assert inspect.signature(surface.Worker.run).return_annotation is goqueue.Worked


def test_a_worker_waits_where_it_waits_in_trio() -> None:
    for function in (goqueue.worker, goqueue.Worker.run, aio.worker, aio.Worker.run):
        assert inspect.iscoroutinefunction(function)
    assert not inspect.iscoroutinefunction(blocking.worker)
    assert not inspect.iscoroutinefunction(blocking.Worker.run)


def plain(message: Any) -> None: ...


async def waiting(message: Any) -> None: ...


def test_a_handler_that_a_surface_cannot_run_is_refused() -> None:
    with pytest.raises(TypeError, match=r"goqueue\.blocking\.worker"):
        aio.Worker("orders", "billing", plain)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"goqueue\.aio\.worker"):
        blocking.Worker("orders", "billing", waiting)
    with pytest.raises(TypeError, match="no plain function"):
        blocking.Worker("orders", "billing", None)  # type: ignore[arg-type]


def test_what_the_broker_refuses_is_raised_as_itself(address: str, client: blocking.Client) -> None:
    with client.consumer("orders", group="billing", max_deliveries=5):
        with pytest.raises(goqueue.GroupConflict):
            blocking.worker("orders", "billing", plain, url=address, max_deliveries=3)
        with pytest.raises(goqueue.GroupConflict):
            asyncio.run(aio.worker("orders", "billing", waiting, url=address, max_deliveries=3))


async def for_trio(message: Any) -> None:
    await trio.sleep(0.01)


def wants_a_loop(message: Any) -> None:
    asyncio.get_running_loop()


def test_a_handler_for_another_event_loop_stops_its_worker_and_no_attempt_is_counted(
    address: str, client: blocking.Client
) -> None:
    values = fill(client, 20)
    for _ in range(4):
        with pytest.raises(goqueue.HandlerCannotRun, match="goqueue work --trio"):
            asyncio.run(aio.worker("orders", "billing", for_trio, url=address, max_deliveries=3))
        with pytest.raises(goqueue.HandlerCannotRun, match="no running event loop"):
            blocking.worker("orders", "billing", wants_a_loop, url=address, max_deliveries=3)
    assert attempts_left(client, len(values)) == [1] * len(values)


def test_a_consumer_fails_a_message_by_its_error(address: str, client: blocking.Client) -> None:
    fill(client, 2)
    retry = goqueue.Retry(first=30, longest=30, never_for=ValueError)

    async def on_asyncio() -> None:
        async with (
            aio.connect(address) as connected,
            connected.consumer("orders", group="billing", retry=retry) as consumer,
        ):
            [message] = await consumer.receive(1, timeout=SECONDS_MAX)
            await message.fail(OSError("away"))

    with client.consumer("orders", group="billing", retry=retry) as consumer:
        [message] = consumer.receive(1, timeout=SECONDS_MAX)
        message.fail(UnicodeError("no text"))
    asyncio.run(on_asyncio())
    with client.read("orders.dlq") as letters:
        assert next(letters).headers["goqueue-dlq-reason"] == b"UnicodeError: no text"
    assert sum(each.waiting for each in client.group("billing").partitions) == 1


def attempts_left(client: blocking.Client, count: int) -> list[int]:
    """Of what the group has not done, which is so many messages."""
    with client.consumer("orders", group="billing") as consumer:
        found: list[blocking.DeliveredMessage] = []
        while len(found) < count:
            messages = consumer.receive(timeout=SECONDS_MAX)
            assert messages
            found += messages
        assert consumer.receive(timeout=0) == []
        return [message.attempt for message in found]


def reasons_of_dead_letters(client: blocking.Client, count: int) -> set[bytes]:
    with blocking.fail_after(SECONDS_MAX):
        while all(topic.name != "orders.dlq" for topic in client.topics()):
            pass  # it is made with the first of them, a moment after the answer
    reader = client.read("orders.dlq")
    with reader, blocking.fail_after(SECONDS_MAX):
        return {next(reader).headers["goqueue-dlq-reason"] for _ in range(count)}


# Threads


def test_plain_functions_run_side_by_side_in_threads(address: str, client: blocking.Client) -> None:
    values = fill(client, 40)
    seen: list[bytes] = []
    threads: set[int] = set()
    together = threading.Barrier(4)

    def handler(message: blocking.DeliveredMessage) -> None:
        together.wait(SECONDS_MAX)
        threads.add(threading.get_ident())
        seen.append(message.value)
        if len(seen) == len(values):
            worker.stop()

    worker = blocking.Worker("orders", "billing", handler, concurrency=4, url=address)
    assert worker.run() == (40, 0, 0)
    assert sorted(seen) == sorted(values)
    assert threading.get_ident() not in threads
    assert client.group("billing").lag == 0


def test_a_function_that_raises_has_failed_and_one_that_settles_is_left_alone(
    address: str, client: blocking.Client
) -> None:
    fill(client, 3)
    seen: list[tuple[bytes, int]] = []

    def handler(message: blocking.DeliveredMessage) -> None:
        is_first = (message.value, message.attempt) not in seen
        seen.append((message.value, message.attempt))
        if len(seen) == 4:
            worker.stop()
        if message.value == b"0":
            raise ValueError("no")
        if message.value == b"1" and is_first:
            message.release()

    worker = blocking.Worker("orders", "billing", handler, concurrency=1, max_deliveries=1, url=address)
    assert worker.run() == (3, 1, 0)
    assert sorted(seen) == [(b"0", 1), (b"1", 1), (b"1", 1), (b"2", 1)]
    assert reasons_of_dead_letters(client, 1) == {b"ValueError: no"}
    assert client.group("billing").lag == 0


def test_a_function_that_runs_on_loses_its_message(address: str, client: blocking.Client) -> None:
    fill(client, 2)
    go_on, ended = threading.Event(), threading.Event()
    errors: list[Exception] = []

    def handler(message: blocking.DeliveredMessage) -> None:
        worker.stop(drain_timeout=0)
        go_on.wait(SECONDS_MAX)
        try:
            message.ack()
        except Exception as error:
            errors.append(error)
        ended.set()

    worker = blocking.Worker("orders", "billing", handler, concurrency=1, url=address)
    try:
        assert worker.run() == (0, 0, 1)
        assert attempts_left(client, 2) == [1, 1]
    finally:
        go_on.set()
        assert ended.wait(SECONDS_MAX)
    assert [type(error) for error in errors] == [goqueue.Closed]


def test_a_worker_in_threads_is_stopped_from_another_one(address: str, client: blocking.Client) -> None:
    worker = blocking.Worker("orders", "billing", plain, url=address)
    running = in_background(worker.run)
    client.publish("orders", b"one")
    wait_until(lambda: any(group.name == "billing" and group.lag == 0 for group in client.groups()))
    worker.stop()
    assert running.ended().value == (1, 0, 0)


def test_a_time_limit_ends_a_worker_and_gives_its_messages_back(address: str, client: blocking.Client) -> None:
    fill(client, 1)
    begun, go_on = threading.Event(), threading.Event()

    def handler(message: blocking.DeliveredMessage) -> None:
        begun.set()
        go_on.wait(SECONDS_MAX)

    def run() -> None:
        with pytest.raises(TimeoutError), blocking.fail_after(1):
            blocking.worker("orders", "billing", handler, url=address)

    try:
        running = in_background(run)
        assert begun.wait(SECONDS_MAX)
        assert running.ended().error is None
        assert attempts_left(client, 1) == [1]
    finally:
        go_on.set()


def test_ctrl_c_ends_a_worker_and_gives_its_messages_back(address: str, client: blocking.Client) -> None:
    fill(client, 2)
    go_on = threading.Event()

    def handler(message: blocking.DeliveredMessage) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        go_on.wait(SECONDS_MAX)

    try:
        with pytest.raises(KeyboardInterrupt):
            blocking.worker("orders", "billing", handler, concurrency=1, url=address, handle_signals=False)
        assert attempts_left(client, 2) == [1, 1]
    finally:
        go_on.set()


# asyncio

in_context: ContextVar[str] = ContextVar("in_context")


def test_handlers_are_tasks_of_the_program_s_loop(address: str, client: blocking.Client) -> None:
    values = fill(client, 40)
    seen: list[bytes] = []
    places: list[tuple[bool, str]] = []
    most = 0

    async def main() -> goqueue.Worked:
        running, loop = 0, asyncio.get_running_loop()
        in_context.set("of the program")

        async def handler(message: aio.DeliveredMessage) -> None:
            nonlocal running, most
            places.append((asyncio.get_running_loop() is loop, in_context.get("of nobody")))
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            seen.append(message.value)
            if len(seen) == len(values):
                worker.stop()

        worker = aio.Worker("orders", "billing", handler, concurrency=4, url=address)
        return await worker.run()

    assert asyncio.run(main()) == (40, 0, 0)
    assert sorted(seen) == sorted(values)
    assert 1 <= most <= 4
    assert set(places) == {(True, "of the program")}
    assert client.group("billing").lag == 0


def test_a_handler_that_raises_or_is_cancelled_from_inside_has_failed(
    address: str, client: blocking.Client
) -> None:
    fill(client, 4)
    seen: list[bytes] = []

    async def main() -> goqueue.Worked:
        async def handler(message: aio.DeliveredMessage) -> None:
            seen.append(message.value)
            if len(seen) == 4:
                worker.stop()
            match message.value:
                case b"0":
                    raise ValueError("no")
                case b"1":
                    raise asyncio.CancelledError
                case b"2":
                    await message.reject("never")

        worker = aio.Worker("orders", "billing", handler, max_deliveries=1, url=address)
        return await worker.run()

    assert asyncio.run(main()) == (2, 2, 0)
    reasons = {b"ValueError: no", b"HandlerCancelled: somebody cancelled it", b"never"}
    assert reasons_of_dead_letters(client, 3) == reasons


async def until_cancelled(address: str, begun: asyncio.Event, ended: list[str]) -> None:
    """Its cleaning up takes longer than leaving a consumer does."""
    begun.set()
    try:
        await asyncio.sleep(1_000)
    finally:
        async with aio.connect(address) as client:
            for _ in range(20):
                await client.topics()
        ended.append("handler")


def cancel_the_worker(address: str, ended: list[str]) -> Callable[[], Any]:
    async def main() -> None:
        begun = asyncio.Event()

        async def handler(message: aio.DeliveredMessage) -> None:
            await until_cancelled(address, begun, ended)

        task = asyncio.create_task(aio.worker("orders", "billing", handler, concurrency=1, url=address))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ended.append("worker")

    return main


def drain_no_time(address: str, ended: list[str]) -> Callable[[], Any]:
    async def main() -> None:
        begun = asyncio.Event()

        async def handler(message: aio.DeliveredMessage) -> None:
            worker.stop(drain_timeout=0)
            await until_cancelled(address, begun, ended)

        worker = aio.Worker("orders", "billing", handler, concurrency=1, url=address)
        assert await worker.run() == (0, 0, 1)
        ended.append("worker")

    return main


def leave_the_loop(address: str, ended: list[str]) -> Callable[[], Any]:
    async def main() -> None:
        begun = asyncio.Event()

        async def handler(message: aio.DeliveredMessage) -> None:
            await until_cancelled(address, begun, ended)

        task = asyncio.create_task(aio.worker("orders", "billing", handler, concurrency=1, url=address))
        task.add_done_callback(lambda _: ended.append("worker"))
        await begun.wait()  # and asyncio.run cancels all that is left, in any order

    return main


@pytest.mark.parametrize("end", [cancel_the_worker, drain_no_time, leave_the_loop])
def test_a_worker_ends_after_its_handlers_and_gives_back_what_they_had_uncounted(
    address: str, client: blocking.Client, end: Callable[[str, list[str]], Callable[[], Any]]
) -> None:
    fill(client, 2)
    ended: list[str] = []
    asyncio.run(end(address, ended)())
    assert ended == ["handler", "worker"]
    assert attempts_left(client, 2) == [1, 1]
