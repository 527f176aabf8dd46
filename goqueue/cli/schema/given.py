"""The schema that a command is given: a file or stdin, with its type and its references."""

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import IO, Any, TypeVar

import click

from goqueue.cli.program.asking import BrokerAddress, ask
from goqueue.cli.program.output import printable
from goqueue.cli.program.running import Misuse
from goqueue.client.client import Client
from goqueue.client.schemas.registry import LATEST, TYPES, AnyVersion, source_to_register
from goqueue.client.schemas.source import SchemaSource
from goqueue.core.schemas.schema import Reference
from goqueue.errors import InvalidConfig, InvalidSchema

Result = TypeVar("Result")
VERSION_MAX = 2**32 - 1


class Version(click.ParamType[AnyVersion]):
    name = "VERSION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> AnyVersion:
        version = version_in(str(value))
        if version is None:
            self.fail(f"{value!r} is no version; give a number from 1 on, or {LATEST}", param, ctx)
        return version


class ReferenceText(click.ParamType[Reference]):
    name = "NAME=SUBJECT:VERSION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Reference:
        if isinstance(value, Reference):
            return value
        name, _, rest = str(value).rpartition("=")
        subject, _, version = rest.rpartition(":")
        if not (name and subject and version.isdecimal() and 1 <= int(version) <= VERSION_MAX):
            self.fail(f"{value!r} is no reference; give one as address.json=address:2", param, ctx)
        return Reference(name, subject, int(version))


def version_in(text: str) -> AnyVersion | None:
    if text == LATEST:
        return LATEST
    return int(text) if text.isdecimal() and 1 <= int(text) <= VERSION_MAX else None


reference_option = click.option(
    "--reference",
    "references",
    type=ReferenceText(),
    multiple=True,
    help="What a `$ref` of this name stands for; may be repeated.",
)
type_option = click.option(
    "--type", "schema_type", type=click.Choice(TYPES), default=TYPES[0], show_default=True, help="The language."
)


def of_one_schema(command: Callable[..., None]) -> Callable[..., None]:
    """FILE, `--type` and `--reference`, for a command that gets them as `source`."""

    @wraps(command)
    def with_source(*, file: IO[bytes], schema_type: str, references: Sequence[Reference], **others: Any) -> None:
        command(source=source_in(file, schema_type, references), **others)

    argument = click.argument("file", type=click.File("rb"), default="-")
    return argument(type_option(reference_option(with_source)))


def source_in(file: IO[bytes], schema_type: str, references: Sequence[Reference]) -> SchemaSource:
    try:
        return source_to_register(file.read(), references, schema_type)
    except InvalidConfig as error:
        raise Misuse(printable(error.message)) from None


def ask_about(broker: BrokerAddress, work: Callable[[Client], Awaitable[Result]]) -> Result:
    """As `ask`. A schema, a version or a level that cannot be is a misuse."""

    async def checked(client: Client) -> Result:
        try:
            return await work(client)
        except (InvalidSchema, InvalidConfig) as error:
            raise Misuse(printable(error.message)) from None

    return ask(broker, checked)
