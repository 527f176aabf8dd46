"""Which event loop runs here: a client in the wrong one says so, and names the right one."""

import sys

import trio

from goqueue.errors import WrongEventLoop


def check_trio_runs() -> None:
    if trio.lowlevel.in_trio_run():
        return
    if asyncio_runs():
        raise WrongEventLoop(
            "this client is for Trio, and asyncio runs here; use goqueue.aio.connect, or goqueue.aio.worker"
        )
    raise WrongEventLoop(
        "this client is for Trio, and no event loop runs here; use it inside trio.run, or without an event loop "
        "goqueue.blocking.connect"
    )


def check_asyncio_runs() -> None:
    if asyncio_runs():
        return
    if trio.lowlevel.in_trio_run():
        raise WrongEventLoop(
            "this client is for asyncio, and Trio runs here; use goqueue.connect, or goqueue.worker"
        )
    raise WrongEventLoop(
        "this client is for asyncio, and no event loop runs here; use it inside asyncio.run, or without an event "
        "loop goqueue.blocking.connect"
    )


def asyncio_runs() -> bool:
    """In this thread. A program that has not imported asyncio does not run it."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
