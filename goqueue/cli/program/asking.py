"""The broker of a command, and how it is called."""

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click
import trio

from goqueue.cli.program.output import printable
from goqueue.cli.program.running import Misuse, run
from goqueue.cli.program.times import Length
from goqueue.client.client import Client, Connecting, connect
from goqueue.client.link.address import DEFAULT_URL
from goqueue.environment import URL_VARIABLE
from goqueue.errors import GoQueueError, InvalidConfig
from goqueue.net.wire import messages as wire

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    url: str
    timeout_seconds: float


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--url` and `--timeout`; the command gets `broker`."""

    @wraps(command)
    def with_broker(url: str, timeout: float, **arguments: Any) -> None:
        command(broker=BrokerAddress(url, timeout), **arguments)

    return _url_option(_timeout_option(with_broker))


def confirm(yes: bool, question: str) -> None:
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise Misuse("nobody is there to ask; give --yes to do it")
    click.confirm(question, abort=True, err=True)


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
_url_option = click.option(
    "--url",
    default=DEFAULT_URL,
    show_default=True,
    envvar=URL_VARIABLE,
    show_envvar=True,
    help="The broker.",
)
_timeout_option = click.option(
    "--timeout",
    type=Length(above_zero=True),
    default=5.0,
    show_default=True,
    envvar="GOQUEUE_TIMEOUT",
    metavar="SECONDS",
    help="How long to try to reach it.",
)


def ask(broker: BrokerAddress, work: Callable[[Client], Awaitable[Result]]) -> Result:
    """Do some work with a client. A refusal ends the command with its message and exit code 1."""
    return run(lambda: _with_client(broker, work))


def connecting_to(broker: BrokerAddress) -> Connecting:
    try:
        return connect(broker.url, name="goqueue command line")
    except InvalidConfig as error:
        raise Misuse(printable(error.message)) from None


@contextmanager
def settings_are_misuse() -> Iterator[None]:
    """For the part of a command that gives settings: those that cannot be are refused with exit code 2."""
    try:
        yield
    except InvalidConfig as error:
        raise Misuse(printable(error.message)) from None


async def _with_client(broker: BrokerAddress, work: Callable[[Client], Awaitable[Result]]) -> Result:
    connecting = connecting_to(broker)
    try:
        async with connecting as client:
            await _reach(client, broker)
            return await work(client)
    except GoQueueError as error:
        raise click.ClickException(printable(error.message)) from None


async def _reach(client: Client, broker: BrokerAddress) -> None:
    """A client waits long for its broker, which may be starting; a person at a keyboard does not."""
    with trio.move_on_after(broker.timeout_seconds):
        await client.call(wire.DescribeTopics(()), wire.Topics)
        return
    raise click.ClickException(no_answer(broker, client))


def no_answer(broker: BrokerAddress, client: Client) -> str:
    failure = f": {printable(client.last_failure)}" if client.last_failure else ""
    return (
        f"no broker answers at {printable(broker.url)} (tried for {broker.timeout_seconds:g} s){failure}; "
        "start one with `goqueue serve`, or say where it is with --url"
    )
