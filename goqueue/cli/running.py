"""How a command runs, and how it ends: scripts read the exit code, people read one sentence."""

from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import NoReturn, ParamSpec, TypeVar

import click
import trio

from goqueue.errors import DiskFailed, UnknownFormat

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Exit(IntEnum):
    SOUND = 0
    DAMAGE = 1
    MISUSE = 2
    INTERRUPTED = 130


class Misuse(click.ClickException):
    """The command was not given what it needs; its message says what to give instead."""

    exit_code = Exit.MISUSE


def run(command: Callable[[], Awaitable[Result]]) -> Result:
    try:
        return trio.run(command)
    except UnknownFormat as error:
        raise Misuse(error.message) from None
    except DiskFailed as error:
        raise click.ClickException(error.message) from None
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None


def end(code: Exit) -> NoReturn:
    click.get_current_context().exit(code)
