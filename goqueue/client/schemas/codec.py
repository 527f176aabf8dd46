"""Values as objects of a program: written as compact JSON, read as JSON in whatever frame they came.

A value is read by names into the program's own type, whichever version of its subject it was written with: a field
that it lacks gets its default, one that the type does not know is passed over.
"""

from typing import Any, Protocol

from goqueue.client.schemas.source import AnySchema, SchemaSource, is_type, source_of

FRAME_SIZE = 5
"""Confluent's clients write a byte 0 and a schema's id of 4 bytes before a value. No JSON begins with that byte."""


class Codec(Protocol):
    @property
    def name(self) -> str:
        """What an object of it is called in errors."""

    @property
    def source(self) -> SchemaSource:
        """The schema of the values that it writes."""

    def encode(self, value: Any) -> bytes:
        """`SchemaMisfit` when it is no such object."""

    def decode(self, data: bytes) -> Any:
        """`SchemaMisfit` when it is not JSON, or does not fit."""


def codec_of(schema: AnySchema) -> Codec:
    if is_type(schema):
        from goqueue.client.schemas.models import ModelCodec  # noqa: PLC0415 (pydantic takes a tenth of a second)

        return ModelCodec(schema)
    from goqueue.client.schemas.jsonvalues import JsonCodec  # noqa: PLC0415 (programs without schemas do without)

    return JsonCodec(source_of(schema))


def body_in(codec: Codec, value: bytes) -> Any:
    return codec.decode(value[FRAME_SIZE:] if value[:1] == b"\0" else value)
