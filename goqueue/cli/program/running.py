"""How a command runs, and how it ends: scripts read the exit code, people read one sentence."""

import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NoReturn, ParamSpec, TypeVar

import click
import trio

from goqueue.errors import DiskFailed, UnknownFormat
from goqueue.nursery import errors_in

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Exit(IntEnum):
    SOUND = 0
    DAMAGE = 1
    MISUSE = 2
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    """The exit code of a shell for a program that ended by SIGPIPE."""
    TERMINATED = 143
    """The exit code of a shell for a program that ended by SIGTERM."""


class Misuse(click.ClickException):
    """The command was given wrong arguments; the message says what to give instead."""

    exit_code = Exit.MISUSE


class Program(click.Group):
    """All commands. Whatever happens to their standard streams, they end without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        _check_streams()
        with ended_by_others():
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                raise
            except OSError as error:
                _let_go_of_stdout()
                raise click.ClickException(f"{error}; is there room where the output goes?") from None


def run(command: Callable[[], Awaitable[Result]]) -> Result:
    with ended_by_others():
        try:
            return trio.run(command)
        except UnknownFormat as error:
            raise Misuse(error.message) from None
        except DiskFailed as error:
            raise click.ClickException(error.message) from None


@contextmanager
def ended_by_others() -> Iterator[None]:
    """After Ctrl-C, or when the reader of a pipe has gone: end quietly, with the exit codes of a shell."""
    try:
        yield
    except (BaseExceptionGroup, BrokenPipeError, KeyboardInterrupt) as error:
        happened = [type(each) for each in errors_in(error)]
        # Ctrl-C is raised in any task that is running, and may come in a group with other errors.
        if KeyboardInterrupt in happened:
            raise SystemExit(Exit.INTERRUPTED) from None
        if BrokenPipeError in happened:
            _let_go_of_stdout()
            raise SystemExit(Exit.PIPE_CLOSED) from None
        raise


def end(code: Exit) -> NoReturn:
    click.get_current_context().exit(code)


def _check_streams() -> None:
    """Before anything else: a closed stream must not be written to, and its descriptor not become a socket."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    _occupy_closed_streams()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # for as long as the program lives
    if sys.stdout is None:
        raise Misuse("stdout is closed; let it go somewhere, /dev/null if nobody reads it")


def _occupy_closed_streams() -> None:
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _let_go_of_stdout() -> None:
    """Its reader has gone; the rest of its buffer must not cause an error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
