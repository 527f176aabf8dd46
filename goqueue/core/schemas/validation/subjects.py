"""A key or a value held to the schemas of its subject."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass

import orjson

from goqueue.core.schemas.reading.refusing import shortened
from goqueue.core.schemas.schema import SchemaVersion
from goqueue.core.schemas.validation.bounds import ValueBounds
from goqueue.core.schemas.validation.compiled import CompiledSchemas
from goqueue.core.schemas.validation.compiling import Validator
from goqueue.core.schemas.validation.explaining import Fault
from goqueue.core.schemas.validation.framing import SchemaName, WrongFraming, named_by_headers, unframed
from goqueue.core.schemas.validation.topicschemas import SubjectSchemas, Version, is_checked
from goqueue.errors import InvalidMessage, SchemaRefused

HELD_MAX = 16
"""Limit of the versions that stay ready from batch to batch."""
PATH_LENGTH_MAX, KEYWORD_LENGTH_MAX, LIMIT_LENGTH_MAX = 90, 24, 40
REASON_LENGTH_MAX, SUBJECT_LENGTH_MAX = 160, 60
"""The parts of a refusal, in characters: together they fit into what is told of a record on the wire. A reason has
the path, the keyword and the limit."""


@dataclass(frozen=True, slots=True)
class HeldVersion:
    """One version, ready to hold values to it; without a validator it holds none."""

    version: SchemaVersion
    validator: Validator | None = None
    bounds: ValueBounds | None = None


class SubjectJudgement:
    def __init__(self, schemas: SubjectSchemas, compiled: CompiledSchemas, *, bytes_max: int, is_key: bool) -> None:
        self._schemas = schemas
        self._compiled = compiled
        self._bytes_max = bytes_max
        self._is_key = is_key
        self._by_name: Mapping[SchemaName, Version] | None = None
        self._held: dict[SchemaName | None, HeldVersion] = {}
        self._refusals: dict[str, SchemaRefused] = {}
        self.judged = 0

    def begin(self) -> None:
        """A batch begins. What the messages of earlier ones have named is forgotten, where it is much."""
        self._refusals.clear()
        if len(self._held) > HELD_MAX:
            self._held.clear()

    def fault(self, data: bytes, headers: Mapping[str, bytes]) -> Generator[None, None, InvalidMessage | None]:
        """Why it is refused; None when it fits, or is held to nothing."""
        try:
            held, payload = yield from self._chosen(data, headers)
        except WrongFraming as error:
            self.judged += 1
            return self._refused(f"$: {error}")
        if held.validator is None or held.bounds is None:
            return None
        self.judged += 1
        return (yield from self._fault(held, held.validator, held.bounds, payload))

    def newest(self) -> Generator[None, None, HeldVersion]:
        held = yield from self.held(None)
        assert held is not None
        return held

    def held(self, name: SchemaName | None) -> Generator[None, None, HeldVersion | None]:
        """None names the newest version. An unknown name gives None."""
        held = self._held.get(name)
        if held is None:
            held = yield from self._hold(name)
            if held is not None:
                self._held[name] = held
        return held

    def _hold(self, name: SchemaName | None) -> Generator[None, None, HeldVersion | None]:
        found = self._schemas.newest if name is None else self._find(name)
        if found is None:
            return None
        version, resolved = found
        if not is_checked(version.schema):
            return HeldVersion(version)
        validator = yield from self._compiled.validator(resolved)
        return HeldVersion(version, validator, ValueBounds.of(self._bytes_max, validator.cost))

    def _find(self, name: SchemaName) -> Version | None:
        if self._by_name is None:
            self._by_name = self._schemas.by_name()
        return self._by_name.get(name)

    # Which version

    def _chosen(
        self, data: bytes, headers: Mapping[str, bytes]
    ) -> Generator[None, None, tuple[HeldVersion, bytes]]:
        named = named_by_headers(headers, is_key=self._is_key)
        held = yield from self._known(named)
        if held.validator is None and named is not None:
            return held, data
        if held.validator is None:
            return (yield from self._chosen_by_prefix(held, data))
        framed = unframed(data)
        if framed.name in (None, held.version.id, held.version.guid):
            return held, framed.payload
        if named is not None:
            raise WrongFraming("the header and the prefix name different schemas")
        held = yield from self._known(framed.name)
        return held, framed.payload

    def _chosen_by_prefix(
        self, newest: HeldVersion, data: bytes
    ) -> Generator[None, None, tuple[HeldVersion, bytes]]:
        """What is held to nothing may begin like a prefix: it counts as one if it names a version."""
        try:
            framed = unframed(data)
        except WrongFraming:
            return newest, data
        held = (yield from self.held(framed.name)) or newest
        return held, framed.payload

    def _known(self, name: SchemaName | None) -> Generator[None, None, HeldVersion]:
        held = yield from self.held(name)
        if held is None:
            raise WrongFraming(f"schema {name} is not one of this subject")
        return held

    # What is wrong

    def _fault(
        self, held: HeldVersion, validator: Validator, bounds: ValueBounds, payload: bytes
    ) -> Generator[None, None, InvalidMessage | None]:
        too_large = bounds.fault(payload)
        if too_large is not None:
            return too_large
        try:
            value = orjson.loads(payload)
        except orjson.JSONDecodeError as error:
            return self._refused(f"$: no JSON, {error.msg} at character {error.pos}", held)
        if bounds.is_too_deep(value):
            return self._refused(f"$: more than {bounds.depth_max} levels deep", held)
        if validator.is_valid(value):
            return None
        yield
        fault = yield from validator.explain(value)
        return self._refused(_told(fault), held)

    def _refused(self, why: str, held: HeldVersion | None = None) -> SchemaRefused:
        """One object for all that is refused for the same reason: a batch may have a million bad records."""
        text = f"{shortened(why, REASON_LENGTH_MAX)}; subject "
        text += shortened(self._schemas.subject, SUBJECT_LENGTH_MAX)
        if held is not None:
            text += f", version {held.version.version}"
        return self._refusals.setdefault(text, SchemaRefused(text))


def _told(fault: Fault | None) -> str:
    if fault is None:
        return "$: it does not fit, and to find out where would take too long"
    limit = f" {shortened(fault.limit, LIMIT_LENGTH_MAX)}" if fault.limit else ""
    return f"{shortened(fault.path, PATH_LENGTH_MAX)}: {shortened(fault.keyword, KEYWORD_LENGTH_MAX)}{limit}"
