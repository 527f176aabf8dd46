"""Values as objects of a program: written as compact JSON, read as JSON in whatever frame they came.

A value is read by names into the program's own type, whichever version of its subject it was written with: a field
that it lacks gets its default, one that the type does not know is passed over.
"""

from typing import Any, Protocol

from goqueue.client.schemas.source import AnySchema, SchemaSource, is_type, source_of
from goqueue.core.schemas.validation.framing import WrongFraming, unframed
from goqueue.errors import SchemaMisfit

FRAMES = (b"\0", b"\1")
"""The first byte of values in Confluent's frame. No JSON begins so."""


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


def codec_of(schema: AnySchema, *, reads: bool = True) -> Codec:
    """One that only writes leaves it to the registry whether JSON is a schema."""
    if is_type(schema):
        from goqueue.client.schemas.models import ModelCodec  # noqa: PLC0415 (pydantic takes a tenth of a second)

        return ModelCodec(schema)
    from goqueue.client.schemas.jsonvalues import JsonCodec  # noqa: PLC0415 (programs without schemas do without)

    return JsonCodec(source_of(schema), reads=reads)


def body_in(codec: Codec, value: bytes) -> Any:
    return codec.decode(_unwrapped(value) if value[:1] in FRAMES else value)


def _unwrapped(value: bytes) -> bytes:
    try:
        return unframed(value).payload
    except WrongFraming as error:
        raise SchemaMisfit(str(error)) from None
