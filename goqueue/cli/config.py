"""The settings of a broker on its command line, and `goqueue config`."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click
from pydantic import ByteSize

from goqueue.cli.program.output import JSON, Column, output_option, printable, write_json, write_table
from goqueue.cli.program.running import Misuse
from goqueue.cli.program.sizes import exact_size_text
from goqueue.errors import InvalidConfig
from goqueue.settings import LoadedSettings, Settings, flag_of, load

Result = TypeVar("Result")
NOTHING = "-"
"""Shown for a list without names."""

# The settings of a broker


def shown(value: object) -> str:
    """For people: a size with its unit, names with commas between."""
    if isinstance(value, ByteSize):
        return exact_size_text(value)
    return printable(", ".join(value) if isinstance(value, tuple) else str(value))


def settings_options(command: Callable[..., None]) -> Callable[..., None]:
    """A flag for each setting and `--config FILE`; the command gets `loaded`."""

    @wraps(command)
    def with_settings(config_file: str | None, **arguments: Any) -> None:
        flags = {name: arguments.pop(name) for name in Settings.model_fields}
        given = {name: value for name, value in flags.items() if value is not None}
        command(loaded=_loaded(given, config_file), **arguments)

    for name, field in reversed(Settings.model_fields.items()):
        default = shown(field.default)
        text = f"{field.description}  [default: {default}]" if default else field.description
        with_settings = click.option(flag_of(name), name, help=text)(with_settings)
    existing = click.Path(exists=True, dir_okay=False)
    help_text = "A TOML file with settings. Environment (GOQUEUE_DATA, …) and flags go before it."
    return click.option("--config", "config_file", type=existing, envvar="GOQUEUE_CONFIG", help=help_text)(
        with_settings
    )


def _loaded(flags: dict[str, str], file: str | None) -> LoadedSettings:
    try:
        return load(flags, file)
    except InvalidConfig as error:
        raise Misuse("\n  ".join(["the settings cannot be used:", *error.details["faults"]])) from None


@click.group()
def config() -> None:
    """Look at the settings of a broker."""


@config.command(short_help="Show each setting, its value and where it came from.")
@settings_options
@output_option
def show(loaded: LoadedSettings, output: str) -> None:
    """Show each setting, its value and where it came from, as `serve` would take them."""
    if output == JSON:
        values = loaded.settings.model_dump()
        write_json({name: {"value": value, "from": loaded.origins[name]} for name, value in values.items()})
        return
    rows = [[name, shown(value) or NOTHING, printable(loaded.origins[name])] for name, value in loaded.settings]
    write_table([Column("SETTING", 7), Column("VALUE", 5), Column("FROM", 4)], rows)
