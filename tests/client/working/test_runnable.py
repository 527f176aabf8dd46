"""Handlers that cannot run at all stop their worker at once, and nothing is counted."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue import HandlerCannotRun, aio, blocking
from goqueue.client.working.runnable import failed_import, is_foreign
from tests.client.working.workers import World, world

__all__ = ["world"]


async def takes_nothing() -> None: ...


async def takes_two(message: object, other: object) -> None: ...


async def takes_by_name(*, message: object) -> None: ...


async def takes_more(message: object, other: int = 3, *more: object, **named: object) -> None: ...


def plain_with_two(message: object, other: object) -> None: ...


@pytest.mark.parametrize(
    ("worker", "handler"),
    [
        (goqueue.Worker, takes_nothing),
        (goqueue.Worker, takes_two),
        (goqueue.Worker, takes_by_name),
        (goqueue.Worker, partial(takes_two, 1, 2)),
        (aio.Worker, takes_two),
        (blocking.Worker, plain_with_two),
        (blocking.Worker, lambda: None),
    ],
)
def test_a_handler_that_takes_no_message_is_refused_before_anything_is_taken(
    worker: Callable[..., object], handler: Callable[..., Any]
) -> None:
    with pytest.raises(HandlerCannotRun, match="a handler takes one argument"):
        worker("orders", "billing", handler)


def test_whatever_takes_one_argument_is_taken() -> None:
    for handler in (takes_more, partial(takes_two, 1)):
        goqueue.Worker("orders", "billing", handler)
    plain: Callable[[Any], object]
    for plain in (print, list[Any]().append, lambda *_: None):
        blocking.Worker("orders", "billing", plain)


async def sleeps_on_asyncio(message: goqueue.DeliveredMessage) -> None:
    await asyncio.sleep(0.01)


async def yields_as_asyncio_does(message: goqueue.DeliveredMessage) -> None:
    await asyncio.sleep(0)


async def has_tasks_of_asyncio(message: goqueue.DeliveredMessage) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))


async def awaits_a_future(message: goqueue.DeliveredMessage) -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    "handler", [sleeps_on_asyncio, yields_as_asyncio_does, has_tasks_of_asyncio, awaits_a_future]
)
async def test_a_handler_for_asyncio_stops_a_worker_on_trio_and_no_attempt_is_counted(
    world: World, autojump_clock: MockClock, handler: Callable[[Any], Awaitable[object]]
) -> None:
    await world.publish(50)
    for _ in range(5):
        with trio.fail_after(60), pytest.raises(HandlerCannotRun, match=r"goqueue\.aio\.worker"):
            await world.worker(handler, max_deliveries=2).run()
    group = await world.client.group("billing")
    assert (group.lag, sum(each.in_flight + each.waiting for each in group.partitions)) == (50, 0)
    del world.seen[:]
    async with world.client.consumer("orders", group="billing") as consumer:
        first = await consumer.receive(timeout=5)
        second = await consumer.receive(timeout=5) if len(first) < 50 else []
        assert {message.attempt for message in [*first, *second]} == {1}


async def sleeps_on_trio(message: object) -> None:
    await trio.sleep(0.01)


async def passes_a_checkpoint(message: object) -> None:
    await trio.lowlevel.checkpoint()


async def has_a_nursery(message: object) -> None:
    async with trio.open_nursery():
        pass


@pytest.mark.parametrize("handler", [sleeps_on_trio, passes_a_checkpoint, has_a_nursery])
def test_the_errors_of_trio_under_asyncio_are_known(handler: Callable[[object], Awaitable[object]]) -> None:
    async def run() -> None:
        await handler(None)

    with pytest.raises(BaseException) as raised:  # noqa: PT011
        asyncio.run(run())
    assert is_foreign(raised.value)


def test_a_loop_that_is_asked_for_in_a_thread_is_known_and_other_errors_are_not() -> None:
    with pytest.raises(RuntimeError) as raised:
        asyncio.get_running_loop()
    assert is_foreign(raised.value)
    for error in (RuntimeError("boom"), TypeError("int"), ValueError("no running event loop"), KeyError()):
        assert not is_foreign(error)


async def imports_what_is_missing(message: object) -> None:
    import goqueue_has_no_such_module  # type: ignore[import-not-found]  # noqa: F401, PLC0415


async def imports_a_name_that_is_missing(message: object) -> None:
    from json import goqueue_has_no_such_name  # type: ignore[attr-defined]  # noqa: F401, PLC0415


async def imports_a_plugin_by_its_name(message: object) -> None:
    import_module("goqueue_plugin_of_the_message")


async def misses_an_extra(message: object) -> None:
    raise ImportError("install shop[excel] to read this")


@pytest.mark.parametrize("handler", [imports_what_is_missing, imports_a_name_that_is_missing])
async def test_a_handler_without_an_import_stops_its_worker_and_no_attempt_is_counted(
    world: World, autojump_clock: MockClock, handler: Callable[[Any], Awaitable[object]]
) -> None:
    await world.publish(20)
    told = r"cannot import .*goqueue_has_no_such.*test_runnable\.py, line"
    for _ in range(3):
        with trio.fail_after(60), pytest.raises(HandlerCannotRun, match=told):
            await world.worker(handler, max_deliveries=2).run()
    group = await world.client.group("billing")
    assert (group.lag, sum(each.in_flight + each.waiting for each in group.partitions)) == (20, 0)
    assert {attempt for _, attempt in world.seen} == {1}


@pytest.mark.parametrize("handler", [imports_a_plugin_by_its_name, misses_an_extra])
async def test_an_import_that_may_depend_on_the_message_is_an_error_of_that_message(
    world: World, autojump_clock: MockClock, handler: Callable[[Any], Awaitable[object]]
) -> None:
    """Else one message that names a plugin that is not there would stop every worker, for ever."""
    await world.publish(1)
    worker = world.worker(handler, max_deliveries=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.until_done, worker, 1)
        assert (await worker.run()).failed == 2


async def test_a_worker_that_was_told_what_is_final_gives_up_the_message_alone(
    world: World, autojump_clock: MockClock
) -> None:
    await world.publish(1)
    worker = world.worker(imports_what_is_missing, retry=goqueue.Retry(never_for=ImportError))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.until_done, worker, 1)
        assert await worker.run() == (0, 1, 0)


def test_an_error_without_a_python_frame_is_no_failed_import() -> None:
    assert failed_import(ImportError("never raised")) is None


async def test_a_handler_that_has_returned_before_can_run_and_its_error_is_one_of_its_message(
    world: World, autojump_clock: MockClock
) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        if len(world.seen) == 5:
            await asyncio.sleep(0.01)

    await world.publish(10)
    worker = world.worker(handler, concurrency=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.until_done, worker, 10)
        assert await worker.run() == (10, 1, 0)
