"""What tests ask of the checker, in one line each."""

import json
from collections.abc import Generator, Mapping
from typing import Any, TypeAlias, TypeVar

from goqueue.core.schemas.compatibility.check import Change, changes, findings
from goqueue.core.schemas.findings import Finding
from goqueue.core.schemas.schema import ResolvedSchema

Schema: TypeAlias = Any
Answer = TypeVar("Answer")


def finished(work: Generator[None, None, Answer]) -> tuple[Answer, int]:
    """Its answer, and how many pieces of work it took."""
    pieces = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, pieces
        pieces += 1


def resolved(schema: Schema, references: Mapping[str, ResolvedSchema] | None = None) -> ResolvedSchema:
    return ResolvedSchema(json.dumps(schema), references=tuple((references or {}).items()))


def spaced(schema: Schema) -> ResolvedSchema:
    """The same in another text, so that nobody sees at first glance that it is the same."""
    return ResolvedSchema(json.dumps(schema, indent=1))


def found(new: Schema, old: Schema) -> list[Finding]:
    """What keeps `new` from reading what `old` wrote."""
    return finished(findings(resolved(new), spaced(old)))[0]


def changed(new: Schema, old: Schema) -> list[Change]:
    return finished(changes(resolved(new), spaced(old)))[0]


def types_and_paths(new: Schema, old: Schema) -> list[str]:
    return [f"{each.type} {each.path}" for each in found(new, old)]
