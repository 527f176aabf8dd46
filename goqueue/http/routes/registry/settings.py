"""How a subject may change: its level of compatibility, and its mode."""

from typing import Any, cast

from goqueue.core.schemas import refusals
from goqueue.errors import InvalidSchema
from goqueue.http.routes.registry.forms import RegistryBody, registry_response, registry_route, subject_of
from goqueue.http.routing.route import HttpCall, Model
from goqueue.http.server.exchange import Response
from goqueue.net.wire import schemas as wire


class SettingsQuery(Model):
    defaultToGlobal: bool = False  # noqa: N815  # as clients spell it
    """What holds for the subject, when it has none of its own."""


class ModeQuery(Model):
    force: bool = False
    """Also `IMPORT` for a subject that has versions."""


class ConfigFields(RegistryBody):
    compatibility: str | None = None
    """`BACKWARD`, `FORWARD`, `FULL`, each also with `_TRANSITIVE`, or `NONE`."""
    compatibilityLevel: str | None = None  # noqa: N815  # as clients spell it
    """Another name of it, which answers have."""
    normalize: bool | None = None
    """Members in any order are the same schema."""


class ModeFields(RegistryBody):
    mode: str
    """`READWRITE`, `READONLY` or `IMPORT`."""


class ConfigAnswer(Model):
    compatibilityLevel: str | None = None  # noqa: N815  # as clients spell it
    normalize: bool | None = None


class ChangedConfigAnswer(Model):
    compatibility: str | None = None
    normalize: bool | None = None


class ModeAnswer(Model):
    mode: str


async def show_config(call: HttpCall[SettingsQuery, None]) -> Response:
    own = await _read(call, with_default=call.query.defaultToGlobal)
    if own.level is None and own.normalize is None:
        raise refusals.no_own_config(subject_of(call))
    level = own.level or (await _read(call, with_default=True)).level
    return _config(level, own.normalize, "compatibilityLevel")


async def change_config(call: HttpCall[None, ConfigFields]) -> Response:
    asked = call.body
    level = asked.compatibility or asked.compatibilityLevel
    if asked.compatibilityLevel not in (None, level):
        raise InvalidSchema(
            "compatibility and compatibilityLevel differ; give one", error_code=refusals.INVALID_LEVEL
        )
    if level is None and asked.normalize is None:
        raise InvalidSchema("there is nothing to change; give compatibility", error_code=refusals.INVALID_LEVEL)
    level = None if level is None else level.upper()
    await call.ask(wire.ChangeSchemaSettings(_subject(call), level, asked.normalize))
    return _config(level, asked.normalize, "compatibility")


async def reset_config(call: HttpCall[Any, Any]) -> Response:
    """Answers with what it was."""
    before = await _change(call, wire.ChangeSchemaSettings(_subject(call), reset_config=True))
    return _config(before.level, before.normalize, "compatibilityLevel")


async def show_mode(call: HttpCall[SettingsQuery, None]) -> Response:
    own = await _read(call, with_default=call.query.defaultToGlobal)
    if own.mode is None:
        raise refusals.no_own_mode(subject_of(call))
    return registry_response({"mode": own.mode})


async def change_mode(call: HttpCall[ModeQuery, ModeFields]) -> Response:
    mode = call.body.mode.upper()
    changed = await _change(call, wire.ChangeSchemaSettings(_subject(call), mode=mode, force=call.query.force))
    return registry_response({"mode": changed.mode})


async def reset_mode(call: HttpCall[Any, Any]) -> Response:
    """Answers with what it was."""
    before = await _change(call, wire.ChangeSchemaSettings(_subject(call), reset_mode=True))
    return registry_response({"mode": before.mode})


def _subject(call: HttpCall[Any, Any]) -> str | None:
    """None: the settings of the registry itself."""
    return subject_of(call) if "subject" in call.path else None


async def _read(call: HttpCall[Any, Any], *, with_default: bool) -> wire.SchemaSettings:
    return cast(wire.SchemaSettings, await call.ask(wire.ReadSchemaSettings(_subject(call), with_default)))


async def _change(call: HttpCall[Any, Any], change: wire.ChangeSchemaSettings) -> wire.SchemaSettings:
    return cast(wire.SchemaSettings, await call.ask(change))


def _config(level: str | None, normalize: bool | None, name: str) -> Response:
    told: dict[str, Any] = {} if level is None else {name: level}
    return registry_response(told if normalize is None else {**told, "normalize": normalize})


ERRORS = ("unknown_subject", "invalid_schema", "schema_conflict", "disk_full")


def _routes(below: str, of_what: str) -> tuple[Any, ...]:
    config, mode = f"/config{below}", f"/mode{below}"
    place = below.format(subject="customers-value")
    return (
        registry_route(
            "GET",
            config,
            show_config,
            f"Show the level of compatibility of {of_what}.",
            query=SettingsQuery,
            answer=ConfigAnswer,
            errors=("unknown_subject", "invalid_schema"),
            asks=(wire.ReadSchemaSettings,),
            example=f"'$URL/config{place}?defaultToGlobal=true'",
        ),
        registry_route(
            "PUT",
            config,
            change_config,
            f"Set the level of compatibility of {of_what}.",
            body=ConfigFields,
            answer=ChangedConfigAnswer,
            errors=ERRORS,
            asks=(wire.ChangeSchemaSettings,),
            example=f"""-X PUT -d '{{"compatibility": "FULL"}}' $URL/config{place}""",
        ),
        registry_route(
            "DELETE",
            config,
            reset_config,
            f"Take back the level of compatibility of {of_what}; the answer has it.",
            answer=ConfigAnswer,
            errors=ERRORS,
            asks=(wire.ChangeSchemaSettings,),
            example=f"-X DELETE $URL/config{place}",
        ),
        registry_route(
            "GET",
            mode,
            show_mode,
            f"Show the mode of {of_what}.",
            query=SettingsQuery,
            answer=ModeAnswer,
            errors=("unknown_subject", "invalid_schema"),
            asks=(wire.ReadSchemaSettings,),
            example=f"'$URL/mode{place}?defaultToGlobal=true'",
        ),
        registry_route(
            "PUT",
            mode,
            change_mode,
            f"Set the mode of {of_what}.",
            query=ModeQuery,
            body=ModeFields,
            answer=ModeAnswer,
            errors=ERRORS,
            asks=(wire.ChangeSchemaSettings,),
            example=f"""-X PUT -d '{{"mode": "READWRITE"}}' $URL/mode{place}""",
        ),
        registry_route(
            "DELETE",
            mode,
            reset_mode,
            f"Take back the mode of {of_what}; the answer has it.",
            answer=ModeAnswer,
            errors=ERRORS,
            asks=(wire.ChangeSchemaSettings,),
            example=f"-X DELETE $URL/mode{place}",
        ),
    )


ROUTES = (*_routes("", "the registry"), *_routes("/{subject}", "a subject"))
