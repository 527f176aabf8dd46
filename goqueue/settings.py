"""The settings of a broker, and where each value comes from.

`Settings` is the one table: each field carries its default, what it accepts and what it does. Values come from a
TOML file, from the environment (`GOQUEUE_DATA`, …) and from flags; later ones win. Every source is checked by
itself, so that a bad value is found even if another one overrides it, and all faults are reported at once, before
anything is opened.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from goqueue.errors import InvalidConfig

LOOPBACK = ("127.0.0.1", "::1", "localhost")
PORT_MAX = 65_535
GIBIBYTE = 1024**3
DEFAULT = "default"
"""The origin of a value that no source sets."""
PREFIX = "GOQUEUE_"
OTHER_NAMES = ("config", "url", "timeout")
"""Names of the commands' own settings in the environment, which are not a broker's."""


def flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is not an address like 127.0.0.1:7710")
    return host, int(port)


def _on_loopback(text: str) -> str:
    host, _ = host_and_port(text)
    if host not in LOOPBACK:
        raise ValueError(f"{host} is beyond loopback, which needs authentication; listen on 127.0.0.1")
    return text


def _whole_size(given: object) -> object:
    """`ByteSize` ignores a suffix that it does not know: 5% would be five bytes."""
    if isinstance(given, str) and not re.fullmatch(r"\d+(\.\d+)?\s*[A-Za-z]*", given.strip(), re.ASCII):
        raise ValueError(f"{given!r} is not a size like 1073741824, 500MB or 2GiB")
    return given


def _no_truth(given: object) -> object:
    """`true` counts as 1 in Python, but nobody means it as a number."""
    if isinstance(given, bool):
        raise ValueError(f"{str(given).lower()} is not a number")
    return given


def _names(given: object) -> object:
    return tuple(name.strip() for name in given.split(",") if name.strip()) if isinstance(given, str) else given


LoopbackAddress = Annotated[str, AfterValidator(_on_loopback)]
Size = Annotated[ByteSize, BeforeValidator(_whole_size), BeforeValidator(_no_truth)]
Number = Annotated[int, BeforeValidator(_no_truth)]


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)]


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    data: str = Field("goqueue-data", min_length=1, description="The data directory.")
    listen: LoopbackAddress = Field("127.0.0.1:7710", description="Where websockets connect; port 0 picks one.")
    http: LoopbackAddress = Field("127.0.0.1:7711", description="Where HTTP connects; port 0 picks one.")
    node: str = Field(
        "node-1",
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="The node's name, written into a new data directory; an older one keeps its own.",
    )
    disk_free_min: Size = Field(
        ByteSize(GIBIBYTE),
        ge=0,
        le=2**63 - 1,
        description="Publishes are refused while less than this (bytes, or 500MB, 2GiB), or less than 5 %, of the"
        " disk is free; 0 lets them fill it.",
    )
    connections_max: Number = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="How many websockets may be open at once; those beyond are refused. Half of the file"
        " descriptors that the system grants is the most, for websockets and HTTP together.",
    )
    http_connections_max: Number = Field(
        1_000,
        ge=1,
        le=1_000_000,
        description="How many HTTP connections may be open at once; those beyond are refused.",
    )
    metrics_series_max: Number = Field(
        50_000,
        ge=1_000,
        le=10_000_000,
        description="How many series `/metrics` may have; with more, those of partitions are summed by topic.",
    )
    hosts: Names = Field(
        (),
        description="Names by which clients may call this broker, beside its addresses and localhost, in a list or"
        " with commas between; a request for another Host is refused.",
    )
    origins: Names = Field(
        (),
        description="Pages of other sites that may call this broker, as https://console.example.com; in a list or"
        " with commas between.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least that the log on stderr says: debug, info, warning or error."
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="The form of the log: text, or json with an object on each line."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """`load` reads the other sources itself: it has to remember where each value came from."""
        return (init_settings,)


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    settings: Settings
    origins: Mapping[str, str]
    """The source of each setting's value."""


@dataclass(frozen=True, slots=True)
class _Place:
    values: Mapping[str, Any]
    named: Callable[[str], str]
    """The name of a setting in this source, for messages."""
    file: str | None = None

    def origin(self, key: str) -> str:
        return self.file or self.named(key)


def load(flags: Mapping[str, str], file: str | None = None) -> LoadedSettings:
    """The effective settings. `InvalidConfig` names every unknown key and bad value at once."""
    faults: list[str] = []
    places = [_file_place(file, faults), _environment_place(faults), _Place(flags, flag_of)]
    faults += [fault for place in places for fault in _faults_of(place)]
    if faults:
        raise InvalidConfig("; ".join(faults), faults=faults)
    values = {key: value for place in places for key, value in place.values.items()}
    origins = {key: place.origin(key) for place in places for key in place.values}
    return LoadedSettings(Settings(**values), {key: origins.get(key, DEFAULT) for key in Settings.model_fields})


def _file_place(file: str | None, faults: list[str]) -> _Place:
    values: Mapping[str, Any] = {}
    try:
        values = TomlConfigSettingsSource(Settings, file).toml_data if file else {}
    except (ValueError, RecursionError) as error:
        faults.append(f"{file} is not TOML ({error})")
    return _Place(values, lambda key: f"{key} in {file}", file)


def _environment_place(faults: list[str]) -> _Place:
    """The environment is shared with others, so only a name that looks like a misspelt setting is a fault."""
    source = EnvSettingsSource(Settings)
    names = [name.removeprefix(PREFIX.lower()) for name in source.env_vars if name.startswith(PREFIX.lower())]
    unknown = sorted(set(names) - set(Settings.model_fields) - set(OTHER_NAMES))
    misspelt = [name for name in unknown if get_close_matches(name, Settings.model_fields, n=1)]
    faults += [f"{PREFIX}{name.upper()} is not a setting{_nearest(name)}" for name in misspelt]
    return _Place(source(), lambda key: f"{PREFIX}{key.upper()}")


def _faults_of(place: _Place) -> Iterator[str]:
    try:
        Settings(**place.values)
    except ValidationError as error:
        for fault in error.errors():
            key = str(fault["loc"][0])
            yield f"{place.named(key)} {_why(key, fault['type'], fault['msg'])}"


def _why(key: str, kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return f"is not a setting{_nearest(key)}"
    words = message.removeprefix("Value error, ")
    return f"cannot be used: {words[:1].lower() + words[1:] if kind != 'value_error' else words}"


def _nearest(key: str) -> str:
    near = get_close_matches(key, Settings.model_fields, n=1)
    return f" (did you mean {near[0]!r}?)" if near else f" (there are {', '.join(Settings.model_fields)})"
