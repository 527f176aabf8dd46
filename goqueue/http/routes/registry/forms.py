"""Schemas as the clients of Confluent's registry send and read them."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

import orjson
from pydantic import BeforeValidator, Field, model_validator

from goqueue.core.schemas.subjects import check_subject_name
from goqueue.errors import InvalidSchema, RegistryError, UnknownSchema
from goqueue.http.routing.route import REGISTRY, HttpCall, Model, Route
from goqueue.http.server.exchange import JSON, Response
from goqueue.net.wire import schemas as wire
from goqueue.net.wire.fields import U32_MAX

TAKES = (REGISTRY, "application/vnd.schemaregistry+json", JSON)
GIVES = (REGISTRY,)
NUMBER_MAX = 2**31 - 1
"""Clients in other languages keep ids and versions in 32 bits with a sign."""
LATEST = "latest"
UNKNOWN_FIELD = UNKNOWN_FORMAT = 422
INVALID_VERSION, NO_SCHEMA = 42202, 40403
GROUP = "Schema registry"

registry_route = partial(Route, group=GROUP, gives=GIVES, takes=TAKES, of_registry=True)

Number = Annotated[int, Field(ge=-1, le=NUMBER_MAX)]
Offset = Annotated[int, Field(ge=0, le=U32_MAX)]
Limit = Annotated[int, Field(ge=-U32_MAX, le=U32_MAX)]
"""All of them where it is negative."""


class RegistryBody(Model):
    """The clients send fields that only other registries know. Those that say nothing are passed over, as are
    `echoed` ones, which an answer had and which come back; anything else would be silently ignored, and is refused.
    """

    echoed: ClassVar[frozenset[str]] = frozenset()
    says_nothing: ClassVar[tuple[Any, ...]] = (None,)

    @model_validator(mode="before")
    @classmethod
    def refuse_unknown(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for name, value in given.items():
            if name not in known | cls.echoed and value not in cls.says_nothing:
                raise RegistryError(
                    f"there is no field {name[:100]!r} here; leave it out", error_code=UNKNOWN_FIELD
                )
        return {name: value for name, value in given.items() if name in known}


def _check_format(given: object) -> object:
    if given not in (None, ""):
        raise RegistryError(
            f"format {str(given)[:100]!r} would need a parser that this registry does not have; schemas are given "
            "as they were registered: leave the parameter out",
            error_code=UNKNOWN_FORMAT,
        )
    return given


SchemaFormat = Annotated[Literal[""] | None, BeforeValidator(_check_format)]


class FormatQuery(Model):
    format: SchemaFormat = None
    """Only the text as it was registered: leave it out."""


class ReferenceFields(Model):
    name: str
    """As `$ref` has it."""
    subject: str
    version: Annotated[int, Field(ge=1, le=NUMBER_MAX)]


class SchemaFields(RegistryBody):
    echoed = frozenset({"subject", "version", "id", "guid", "deleted"})
    says_nothing = (None, False, [], {}, "")

    text: Annotated[str, Field(alias="schema")]
    """The schema itself, as text."""
    type: Annotated[str | None, Field(alias="schemaType", json_schema_extra={"examples": ["JSON"]})] = None
    """`JSON` or `AVRO`; JSON unless it is given."""
    references: list[ReferenceFields] | None = None
    metadata: dict[str, Any] | None = None
    rule_set: Annotated[dict[str, Any] | None, Field(alias="ruleSet")] = None

    def in_wire(self) -> wire.SchemaBody:
        references = (wire.SchemaReference(each.name, each.subject, each.version) for each in self.references or ())
        return wire.SchemaBody(
            self.text,
            self.type or "JSON",
            tuple(references),
            _packed(self.metadata),
            _packed(self.rule_set),
        )


class NewSchemaFields(SchemaFields):
    id: Number | None = None
    """In mode `IMPORT`. A number below 1 gives none."""
    version: Number | None = None
    """Likewise."""

    @property
    def given_id(self) -> int | None:
        return self.id if self.id is not None and self.id > 0 else None

    @property
    def given_version(self) -> int | None:
        return self.version if self.version is not None and self.version > 0 else None


class ReferenceAnswer(Model):
    name: str
    subject: str
    version: int


class SchemaAnswer(Model):
    """The last ones are left out where they are empty."""

    subject: str | None = None
    version: int | None = None
    id: int
    guid: str
    type: Annotated[str, Field(alias="schemaType")]
    text: Annotated[str, Field(alias="schema")]
    references: list[ReferenceAnswer] = []  # noqa: RUF012  # of a class that is never written to
    metadata: dict[str, Any] | None = None
    rule_set: Annotated[dict[str, Any] | None, Field(alias="ruleSet")] = None
    deleted: bool = False


def _packed(value: Mapping[str, Any] | None) -> str | None:
    return orjson.dumps(value).decode() if value else None


def schema_in_json(described: wire.SchemaDescription, *, with_place: bool = True) -> dict[str, Any]:
    """`with_place`: with its subject and version."""
    schema = described.schema
    place = {"subject": described.subject, "version": described.version} if with_place else {}
    found: dict[str, Any] = {
        **place,
        "id": described.id,
        "guid": str(UUID(bytes=described.guid)),
        "schemaType": schema.type,
        "schema": schema.text,
    }
    if schema.references:
        found["references"] = [each._asdict() for each in schema.references]
    for name, text in (("metadata", schema.metadata), ("ruleSet", schema.rule_set)):
        if text:
            found[name] = orjson.Fragment(text)
    if described.is_deleted:
        found["deleted"] = True
    return found


def registry_response(value: Any, status: int = 200) -> Response:
    return Response(status, orjson.dumps(value), REGISTRY)


# What stands in a path


def subject_of(call: HttpCall[Any, Any]) -> str:
    return check_subject_name(call.path["subject"])


def version_in_path(text: str) -> int:
    """0 is the newest one."""
    if text.lower() == LATEST:
        return wire.LATEST
    number = _number(text)
    if number is None:
        raise InvalidSchema(
            f"{text[:100]!r} is no version: that is a number from 1 to {NUMBER_MAX}, or {LATEST}",
            error_code=INVALID_VERSION,
        )
    return number


def id_in_path(text: str) -> int:
    number = _number(text)
    if number is None:
        raise UnknownSchema(f"no schema has the id {text[:100]!r}", error_code=NO_SCHEMA)
    return number


def guid_in_path(text: str) -> bytes:
    try:
        return UUID(text).bytes
    except ValueError:
        raise UnknownSchema(f"no schema has the guid {text[:100]!r}", error_code=NO_SCHEMA) from None


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(NUMBER_MAX))
    return int(text) if is_number and 1 <= int(text) <= NUMBER_MAX else None
