"""Pydantic models, dataclasses and other types that pydantic knows: their schema, and their values as JSON."""

import re
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import ErrorDetails, PydanticSerializationError, core_schema

from goqueue.client.link.arguments import refusal
from goqueue.client.schemas.source import SchemaSource, misfit
from goqueue.core.records.jsonvalue import json_bytes

WRITTEN: JsonSchemaMode = "serialization"
"""The schema is that of the values as they are written."""
FAULTS_NAMED = 3
DIALECT = "$schema"
FIELD = re.compile(r"\[field_name='(\w+)'")
"""How pydantic names a field that it cannot write."""


class ClosedSchemas(GenerateJsonSchema):
    """Objects have no other properties than those of the type, unless the type says so."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _closed(super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _closed(super().typed_dict_schema(schema))


def _closed(schema: JsonSchemaValue) -> JsonSchemaValue:
    if schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    return schema


def type_text(kind: Any) -> str:
    """The schema of a type, as text."""
    return _text_of(_adapter_of(kind), kind)


def _text_of(adapter: TypeAdapter[Any], kind: Any) -> str:
    try:
        schema = adapter.json_schema(mode=WRITTEN, schema_generator=ClosedSchemas)
    except PydanticUserError as error:
        raise refusal(f"{name_of(kind)} has no JSON Schema: {_first_line(error)}") from None
    return json_bytes({DIALECT: ClosedSchemas.schema_dialect, **schema}).decode()


def _adapter_of(kind: Any) -> TypeAdapter[Any]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        adapter.rebuild()
    except (PydanticUserError, NameError) as error:
        raise refusal(
            f"schema={name_of(kind)} is no type that pydantic knows; give a pydantic model, a dataclass or JSON "
            f"Schema ({_first_line(error)})"
        ) from None
    return adapter


def name_of(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


class ModelCodec:
    """Values are objects of a type."""

    def __init__(self, kind: Any) -> None:
        self.name = name_of(kind)
        self._adapter = adapter = _adapter_of(kind)
        self._kind = kind
        # The methods of the adapter are several layers above these.
        self._checked = adapter.validator.validate_python
        self._read = adapter.validator.validate_json
        self._write = adapter.serializer.to_json

    @property
    def source(self) -> SchemaSource:
        return SchemaSource(_text_of(self._adapter, self._kind))

    def encode(self, value: Any) -> bytes:
        """Compact JSON. What pydantic would only warn of is refused: a field of another type than it declares."""
        try:
            return self._write(self._checked(value, strict=True), by_alias=True, warnings="error")
        except ValidationError as error:
            fault = _faults_in(error)
        except PydanticSerializationError as error:
            fault = _unwritable_in(error)
        raise misfit(self.name, fault)

    def decode(self, data: bytes) -> Any:
        try:
            return self._read(data)
        except ValidationError as error:
            fault = _faults_in(error)
        except Exception as error:  # of a validator of the program's own
            raise misfit(self.name, f"its validator failed with {type(error).__name__}") from error
        raise misfit(self.name, fault)


def _faults_in(error: ValidationError) -> str:
    """Where, and what is wrong there; without a word of the value."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    named = "; ".join(map(_fault_text, faults[:FAULTS_NAMED]))
    return named if len(faults) <= FAULTS_NAMED else f"{named}; and {len(faults) - FAULTS_NAMED} more"


def _fault_text(fault: ErrorDetails) -> str:
    place, text = ".".join(map(str, fault["loc"])), fault["msg"]
    return f"{place}: {text}" if place else text


def _unwritable_in(error: PydanticSerializationError) -> str:
    """Pydantic's own text has the value in it."""
    fields = dict.fromkeys(FIELD.findall(str(error)))
    return f"{', '.join(fields) or 'it'} cannot be written as the type declares"
