"""A client in the wrong event loop, or in none, names the right one; and `help` of a worker is of use."""

import asyncio
import inspect
import pydoc
from collections.abc import Awaitable, Callable
from types import ModuleType

import pytest
import trio

import goqueue
from goqueue import WrongEventLoop, aio, blocking
from goqueue.client.working.rules import Worked


async def handle(message: object) -> None:
    """Nothing is to be handled here."""


async def enter(surface: ModuleType) -> None:
    async with surface.connect("ws://127.0.0.1:1"):
        pass


async def work(surface: ModuleType) -> None:
    await surface.worker("orders", "billing", handle, url="ws://127.0.0.1:1")


@pytest.mark.parametrize("use", [enter, work])
def test_a_client_in_the_wrong_loop_names_the_right_one(use: Callable[[ModuleType], Awaitable[None]]) -> None:
    with pytest.raises(WrongEventLoop, match=r"for Trio, and asyncio runs here; use goqueue\.aio\.connect"):
        asyncio.run(use(goqueue))  # type: ignore[arg-type]
    with pytest.raises(WrongEventLoop, match=r"for asyncio, and Trio runs here; use goqueue\.connect"):
        trio.run(use, aio)


@pytest.mark.parametrize("use", [enter, work])
@pytest.mark.parametrize("surface", [goqueue, aio], ids=lambda each: each.__name__)
def test_a_client_without_a_loop_names_what_works_without_one(
    use: Callable[[ModuleType], Awaitable[None]], surface: ModuleType
) -> None:
    waiting = use(surface)
    with pytest.raises(WrongEventLoop, match=r"no event loop runs here.*goqueue\.blocking\.connect"):
        waiting.send(None)  # type: ignore[attr-defined]


def test_a_client_of_asyncio_that_is_taken_into_trio_says_so(address: str) -> None:
    async def program() -> aio.Client:
        async with aio.connect(address) as client:
            with pytest.raises(WrongEventLoop):
                await asyncio.to_thread(trio.run, client.topics)
            return client

    asyncio.run(program())


@pytest.mark.parametrize("surface", [goqueue, aio, blocking], ids=lambda each: each.__name__)
def test_help_shows_what_a_worker_takes_and_means(surface: ModuleType) -> None:
    shown = inspect.signature(surface.worker)
    assert list(shown.parameters) == list(inspect.signature(surface.Worker).parameters)
    assert shown.return_annotation in (Worked, "Worked")
    text = pydoc.plain(pydoc.render_doc(surface.worker))
    assert "HandlerT" not in text
    for word in ("handler: ", "drain_timeout", "At most `concurrency` handlers run at a time", "is nacked"):
        assert word in text
