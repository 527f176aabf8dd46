"""A schema as a validator.

It decides in one call that cannot be interrupted, in less than a microsecond for a small value. What it costs at
most is known from `cost`. When it refuses, another form of the schema explains (`forms`), which is compiled once it
is needed: what every member of a union says would take time that doubles with each level of a recursive value.
"""

from collections.abc import Callable, Generator
from enum import Enum
from typing import Any

import jsonschema_rs

from goqueue.core.schemas.reading.cost import SchemaCost, cost_of
from goqueue.core.schemas.reading.documents import Documents
from goqueue.core.schemas.reading.patterns import PATTERN_SIZE_MAX, Patterns
from goqueue.core.schemas.reading.refusing import pointer, refused
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.core.schemas.text import finished
from goqueue.core.schemas.validation.explaining import Fault, fault_of
from goqueue.core.schemas.validation.forms import write_form

PATTERN_CACHE_MAX = 256 * 1024
"""Limit of what one pattern remembers of the texts that it was matched with, in bytes."""
MASK = "…"
"""Stands for the value in whatever the validator says."""
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")


class Explains(Enum):
    """Which form of the schema explains."""

    WITHOUT_UNIONS = "without unions"
    AS_IT_IS = "as it is"
    """It asks what the members of unions have looked at, so these cannot be hidden."""
    NOT = "not"
    """An explanation could take a very long time."""


class Validator:
    """Holds values to one schema."""

    def __init__(
        self,
        resolved: ResolvedSchema,
        is_valid: Callable[[Any], bool],
        *,
        cost: SchemaCost,
        explains: Explains,
        text_size: int,
    ) -> None:
        self.is_valid = is_valid
        self.cost = cost
        self.text_size = text_size
        """The characters of the schema and its references."""
        self._resolved = resolved
        self._explains = explains
        self._explaining: jsonschema_rs.Validator | None = None

    def explain(self, value: Any) -> Generator[None, None, Fault | None]:
        """Where a value that is not valid breaks the schema. None: it would take too long to find out."""
        if self._explains is Explains.NOT:
            return None
        if self._explaining is None:
            documents = yield from read(self._resolved)
            yield from write_form(documents, without_unions=self._explains is Explains.WITHOUT_UNIONS)
            self._explaining = compiled(documents)
            yield
        return fault_of(self._explaining, value)


def compiling(resolved: ResolvedSchema) -> Generator[None, None, Validator]:
    """The validator of a JSON Schema. Raises `InvalidSchema`; yields after each small piece of work."""
    documents = yield from read(resolved)
    return (yield from compiling_read(resolved, documents))


def compile_schema(resolved: ResolvedSchema) -> Validator:
    """The same at once. A large schema takes a while; `compiling` lets others run."""
    return finished(compiling(resolved))


def read(resolved: ResolvedSchema) -> Generator[None, None, Documents]:
    """With every `$ref` resolved."""
    documents = Documents()
    yield from documents.load(resolved)
    yield from documents.resolve()
    return documents


def compiling_read(resolved: ResolvedSchema, documents: Documents) -> Generator[None, None, Validator]:
    patterns = Patterns()
    yield from patterns.measure(documents)
    cost = yield from cost_of(documents, patterns)
    explains = _explains(documents, cost)
    yield from write_form(documents, without_unions=False)
    validator = compiled(documents)
    yield
    return Validator(resolved, validator.is_valid, cost=cost, explains=explains, text_size=documents.text_size)


def compiled(documents: Documents) -> jsonschema_rs.Validator:
    """The validator of documents that were written to be compiled."""
    options = jsonschema_rs.RegexOptions(size_limit=PATTERN_SIZE_MAX, dfa_size_limit=PATTERN_CACHE_MAX)
    main, *others = documents.all
    try:
        registry = jsonschema_rs.Registry([(other.uri, other.root) for other in others])
        return jsonschema_rs.validator_for(
            main.root,
            registry=registry,
            base_uri=main.uri,
            offline=True,
            pattern_options=options,
            validate_formats=False,
            mask=MASK,
        )
    except jsonschema_rs.ValidationError as error:
        raise refused(pointer(error.instance_path), f"{error.message} ({error.kind.name})") from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise refused("#", str(error)) from None


def _explains(documents: Documents, cost: SchemaCost) -> Explains:
    unevaluated = any(
        isinstance(place.schema, dict) and any(keyword in place.schema for keyword in _UNEVALUATED)
        for place in documents.places
    )
    if cost.forks or (cost.is_recursive and unevaluated):
        return Explains.NOT
    return Explains.AS_IT_IS if unevaluated else Explains.WITHOUT_UNIONS
