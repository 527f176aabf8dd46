"""The objects of a producer on their way out: as JSON, under a header that names their schema."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from goqueue.client.link.arguments import check_flag
from goqueue.client.schemas.codec import codec_of
from goqueue.client.schemas.registry import SchemaQuestions
from goqueue.client.schemas.source import AnySchema, RegisteredSchema
from goqueue.core.schemas.validation.framing import SCHEMA_ID_HEADER, header_of
from goqueue.errors import Closed, InvalidMessage, PublishFailed, SchemaMisfit, UnknownSchema, UnknownSubject


class Encoded(NamedTuple):
    """Values, with the errors of those that cannot be encoded in their places: a producer refuses these alone."""

    values: list[Any]
    misfits: dict[int, SchemaMisfit]

    def failure(self, failure: PublishFailed) -> PublishFailed:
        """What a producer said of these values, in the words of their errors."""
        results = [self.misfits.get(place, result) for place, result in enumerate(failure.results)]
        return PublishFailed(results) if self.misfits else failure


class Outgoing:
    def __init__(self, topic: str, schema: AnySchema, register: bool) -> None:
        self.subject = f"{topic}-value"
        self._codec = codec_of(schema, reads=False)
        self._registers = check_flag("register", register)
        self._schema: RegisteredSchema | None = None
        self._headers: Mapping[str, bytes] = {}

    async def begin(self, questions: SchemaQuestions) -> None:
        """Register the schema, or see that it is there."""
        self._schema = found = await (self._registered(questions) if self._registers else self._found(questions))
        self._headers = header_of(found.id)

    async def _registered(self, questions: SchemaQuestions) -> RegisteredSchema:
        registered, _ = await questions.register(self.subject, self._codec.source)
        return registered

    async def _found(self, questions: SchemaQuestions) -> RegisteredSchema:
        try:
            return await questions.find(self.subject, self._codec.source)
        except (UnknownSubject, UnknownSchema) as error:
            raise UnknownSchema(
                f"subject {self.subject} has no version with the schema of {self._codec.name} ({error.message}); "
                "register it, or let the producer do so by register=True",
                **error.details,
            ) from None

    @property
    def schema(self) -> RegisteredSchema:
        if self._schema is None:
            raise Closed("the producer is not open; enter it first")
        return self._schema

    # Messages

    def encoded(self, value: Any) -> bytes | None:
        return None if value is None else self._codec.encode(value)

    def all_encoded(self, values: Sequence[Any]) -> Encoded:
        encoded = Encoded([], {})
        for place, value in enumerate(values):
            try:
                encoded.values.append(self.encoded(value))
            except SchemaMisfit as error:
                encoded.values.append(error)
                encoded.misfits[place] = error
        return encoded

    def all_sound(self, values: Sequence[Any]) -> list[Any]:
        """The first misfit raises, with its `number` in the error's details."""
        encoded = self.all_encoded(values)
        for place, error in encoded.misfits.items():
            error.details["number"] = place
            raise error
        return encoded.values

    def named(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a message, with the header."""
        headers = options.get("headers")
        if not headers or not isinstance(headers, Mapping):
            return {**options, "headers": headers or self._headers}
        if SCHEMA_ID_HEADER in headers:
            raise InvalidMessage(f"the header {SCHEMA_ID_HEADER} is the producer's own; leave it out")
        return {**options, "headers": {**headers, **self._headers}}
