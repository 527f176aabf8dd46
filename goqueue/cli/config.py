"""What commands are told from outside: the settings of a broker, and which broker to talk to."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click
import trio

from goqueue.cli.output import JSON, Column, output_option, printable, write_json, write_table
from goqueue.cli.running import Misuse, run
from goqueue.errors import GoQueueError, InvalidConfig
from goqueue.net import messages as wire
from goqueue.net.client import Client, connect
from goqueue.settings import Loaded, Settings, flag_of, load

Result = TypeVar("Result")

# The settings of a broker


def settings_options(command: Callable[..., None]) -> Callable[..., None]:
    """A flag for each setting and `--config FILE`; the command gets `loaded`."""

    @wraps(command)
    def with_settings(config_file: str | None, **arguments: Any) -> None:
        flags = {name: arguments.pop(name) for name in Settings.model_fields}
        given = {name: value for name, value in flags.items() if value is not None}
        command(loaded=_loaded(given, config_file), **arguments)

    for name, field in reversed(Settings.model_fields.items()):
        text = f"{field.description}  [default: {field.default}]"
        with_settings = click.option(flag_of(name), name, help=text)(with_settings)
    existing = click.Path(exists=True, dir_okay=False)
    help_text = "A TOML file with settings. Environment (GOQUEUE_DATA, …) and flags go before it."
    return click.option("--config", "config_file", type=existing, envvar="GOQUEUE_CONFIG", help=help_text)(
        with_settings
    )


def _loaded(flags: dict[str, str], file: str | None) -> Loaded:
    try:
        return load(flags, file)
    except InvalidConfig as error:
        raise Misuse("\n  ".join(["the settings cannot be used:", *error.details["faults"]])) from None


@click.group()
def config() -> None:
    """Look at the settings of a broker."""


@config.command()
@settings_options
@output_option
def show(loaded: Loaded, output: str) -> None:
    """Show each setting, its value and where it came from, as `serve` would take them."""
    values = loaded.settings.model_dump()
    if output == JSON:
        write_json({name: {"value": value, "from": loaded.origins[name]} for name, value in values.items()})
        return
    rows = [[name, printable(str(value)), printable(loaded.origins[name])] for name, value in values.items()]
    write_table([Column("SETTING", 7), Column("VALUE", 5), Column("FROM", 4)], rows)


# The broker to talk to


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


_url_option = click.option(
    "--url",
    default="ws://127.0.0.1:7710",
    show_default=True,
    envvar="GOQUEUE_URL",
    show_envvar=True,
    help="The broker.",
)
_timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    envvar="GOQUEUE_TIMEOUT",
    metavar="SECONDS",
    help="How long to try to reach it.",
)


def ask(broker: BrokerAddress, work: Callable[[Client], Awaitable[Result]]) -> Result:
    """Do some work with a client. What goqueue refuses ends the command with its sentence and exit code 1."""
    return run(lambda: _with_client(broker, work))


async def _with_client(broker: BrokerAddress, work: Callable[[Client], Awaitable[Result]]) -> Result:
    try:
        connecting = connect(broker.url, name="goqueue command line")
    except ValueError as error:
        raise Misuse(str(error)) from None
    try:
        async with connecting as client:
            await _reach(client, broker)
            return await work(client)
    except GoQueueError as error:
        raise click.ClickException(printable(error.message)) from None


async def _reach(client: Client, broker: BrokerAddress) -> None:
    """A client waits long for its broker, which may be starting; somebody at a keyboard does not."""
    with trio.move_on_after(broker.timeout_seconds):
        await client.call(wire.DescribeTopics(()), wire.Topics)
        return
    raise click.ClickException(
        f"no broker answers at {printable(broker.url)} (tried for {broker.timeout_seconds:g} s); "
        "start one with `goqueue serve`, or say where it is with --url"
    )
