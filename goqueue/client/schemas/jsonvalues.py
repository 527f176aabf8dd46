"""Values of a JSON Schema: maps, lists, texts, numbers, as JSON has them."""

from typing import Any

from goqueue.client.link.arguments import refusal
from goqueue.client.schemas.source import SchemaSource, misfit
from goqueue.core.records.jsonvalue import json_bytes, value_of_json
from goqueue.core.records.record import VALUE_SIZE_MAX
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.core.schemas.text import finished
from goqueue.core.schemas.validation.bounds import ValueBounds
from goqueue.core.schemas.validation.compiling import compile_schema
from goqueue.core.schemas.validation.explaining import Fault
from goqueue.errors import InvalidMessage, SchemaMisfit


class JsonCodec:
    """The broker holds what is written to the schema; this holds what is read to it."""

    name = "value of its schema"

    def __init__(self, source: SchemaSource, *, reads: bool = True) -> None:
        self.source = source
        self._held = JsonHeld(source) if reads else None

    def encode(self, value: Any) -> bytes:
        """Compact JSON."""
        try:
            return json_bytes(value)
        except InvalidMessage as error:
            raise SchemaMisfit(error.message) from None

    def decode(self, data: bytes) -> Any:
        try:
            value = value_of_json(data)
        except ValueError as error:
            raise SchemaMisfit(f"the value is no JSON: {error}") from None
        fault = self._held and self._held.fault_in(value)
        if fault:
            raise misfit(self.name, fault)
        return value


class JsonHeld:
    """Holds values to a schema, which stands alone."""

    def __init__(self, source: SchemaSource) -> None:
        for reference in source.references:
            raise refusal(
                f"the schema refers to {reference.subject}; put what it needs below $defs, or give a type"
            )
        self._validator = compile_schema(ResolvedSchema(source.text))
        self._bounds = ValueBounds.of(VALUE_SIZE_MAX, self._validator.cost)

    def fault_in(self, value: Any) -> str:
        """What is wrong with it; empty when it fits."""
        if self._bounds.is_too_deep(value):
            return f"it is more than {self._validator.cost.depth_max} levels deep"
        if self._validator.is_valid(value):
            return ""
        fault = finished(self._validator.explain(value))
        return "it would take too long to find out why" if fault is None else _told(fault)


def _told(fault: Fault) -> str:
    return f"{fault.path}: {fault.keyword} {fault.limit}".rstrip()
