"""Values of a JSON Schema: maps, lists, texts, numbers, as JSON has them."""

from typing import Any

import jsonschema_rs

from goqueue.client.link.arguments import refusal
from goqueue.client.schemas.source import SchemaSource, misfit
from goqueue.core.records.jsonvalue import json_bytes, value_of_json
from goqueue.errors import InvalidMessage, SchemaMisfit


class JsonCodec:
    """Values are what the JSON says. Their schema is the registry's to judge, and the consumer's own to hold to."""

    name = "value of its schema"

    def __init__(self, source: SchemaSource) -> None:
        self.source = source
        self._validator = _validator_of(source)

    def encode(self, value: Any) -> bytes:
        """Compact JSON. Whether it fits the schema is the broker's word."""
        try:
            return json_bytes(value)
        except InvalidMessage as error:
            raise SchemaMisfit(error.message) from None

    def decode(self, data: bytes) -> Any:
        try:
            value = value_of_json(data)
        except ValueError as error:
            raise SchemaMisfit(f"the value is no JSON: {error}") from None
        if not self._validator.is_valid(value):
            raise misfit(self.name, self._fault_in(value))
        return value

    def _fault_in(self, value: Any) -> str:
        error = next(iter(self._validator.iter_errors(value)))
        place = "/".join(map(str, error.instance_path))
        return f"#/{place}: {error.message}"


def _validator_of(source: SchemaSource) -> Any:
    try:
        schema = value_of_json(source.text.encode())
    except ValueError as error:
        raise refusal(f"the schema is no JSON: {error}") from None
    try:
        return jsonschema_rs.validator_for(
            schema, offline=True, validate_formats=False, pattern_options=jsonschema_rs.RegexOptions(), mask="it"
        )
    except jsonschema_rs.ValidationError as error:
        raise refusal(f"the schema is no JSON Schema: {error}") from None
