"""`--schema FILE`, or `--schema registry[:SUBJECT[:VERSION]]`."""

import re
from typing import Any, NamedTuple

import click

REGISTRY = "registry"
LATEST = "latest"
VERSION = re.compile(r"(.*):(latest|[0-9]{1,9})", re.DOTALL)


class RegistryChoice(NamedTuple):
    subject: str | None
    """None: that of the topic's values."""
    version: int | str


class SchemaChoice(click.ParamType[Any]):
    """An open file, or a version of the registry. A file that is named like one is ./registry."""

    name = "schema"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == REGISTRY:
            return RegistryChoice(None, LATEST)
        if isinstance(value, str) and value.startswith(f"{REGISTRY}:"):
            return self._chosen(value.removeprefix(f"{REGISTRY}:"), param, ctx)
        return click.File("rb").convert(value, param, ctx)

    def _chosen(self, said: str, param: click.Parameter | None, ctx: click.Context | None) -> RegistryChoice:
        """A subject may have colons of its own."""
        found = VERSION.fullmatch(said)
        subject, version = (found[1], found[2]) if found else (said, LATEST)
        if version != LATEST and int(version) == 0:
            self.fail("versions are counted from 1; or say latest", param, ctx)
        return RegistryChoice(subject or None, version if version == LATEST else int(version))
