"""Whether a schema is one: each keyword has a value of the right kind, by the metaschema of its draft.

`jsonschema` decides, with an empty registry, so that nothing is fetched. It takes a quarter of a millisecond for a
small object and cannot be interrupted. So it is given one schema at a time, without the schemas within it; long
lists are cut into pieces; and what was found right once, texts apart, is not asked again. What a metaschema says of
a list as a whole, such as that no item is there twice, is seen by the compiler.
"""

from collections.abc import Generator, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urljoin

import orjson
from jsonschema import Draft4Validator, Draft6Validator, Draft7Validator, Draft201909Validator, Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY as METASCHEMAS
from referencing.jsonschema import EMPTY_REGISTRY

from goqueue.core.schemas.reading.documents import Place
from goqueue.core.schemas.reading.drafts import Draft
from goqueue.core.schemas.reading.keywords import HOLDS_SCHEMAS
from goqueue.core.schemas.reading.parsing import WALKED_AT_ONCE
from goqueue.core.schemas.reading.refusing import pointer, refused

_VALIDATORS: dict[Draft, type[Validator]] = {
    Draft.DRAFT_4: Draft4Validator,
    Draft.DRAFT_6: Draft6Validator,
    Draft.DRAFT_7: Draft7Validator,
    Draft.DRAFT_2019_09: Draft201909Validator,
    Draft.DRAFT_2020_12: Draft202012Validator,
}
_TEXTS = frozenset({"$comment", "$ref", "description", "format", "pattern", "title"})
"""Any text is right for these: an empty one stands for it."""
_LISTS = {"enum": 1, "examples": 0}
"""Lists whose items may be anything: the first ones stand for all."""
PIECE = 50


class Piece(NamedTuple):
    """A part of a schema. `first` is the place of its first item, where it is a part of a list."""

    schema: dict[str, Any]
    first: int = 0


def check_keywords(places: Sequence[Place]) -> Generator[None, None, None]:
    """Raises `InvalidSchema` with the path of what is wrong; yields after each piece that was asked about."""
    right: set[tuple[Draft, bytes]] = set()
    for number, place in enumerate(places):
        draft = place.document.draft
        for piece in _pieces(place):
            form = draft, orjson.dumps(piece.schema)
            if form not in right:
                _check(place, piece)
                right.add(form)
                yield
        if number % WALKED_AT_ONCE == 0:
            yield


def _check(place: Place, piece: Piece) -> None:
    error = best_match(_validator(place.document.draft).iter_errors(piece.schema))
    if error is not None:
        steps = list(error.absolute_path)
        if piece.first and isinstance(steps[-1], int):
            steps[-1] += piece.first
        raise refused(f"{place.path}{pointer(steps)[1:]}", error.message)


def _pieces(place: Place) -> Iterator[Piece]:
    """The schema without those within it. A list or an object that is long comes in pieces of its own."""
    if isinstance(place.schema, bool):
        return
    draft = place.document.draft
    if place.steps and place.schema.get("$schema", draft.uri) != draft.uri:
        raise refused(f"{place.path}/$schema", "another draft than the whole schema has; make it a reference")
    whole: dict[str, Any] = {}
    for keyword, value in place.schema.items():
        if keyword in _known_keywords(draft):
            short = _shallow(keyword, value, dict if draft is Draft.DRAFT_4 else (dict, bool))
            if _is_long(short):
                yield from (Piece({keyword: part}, first) for first, part in _parts(short))
            else:
                whole[keyword] = short
    yield Piece(whole)


def _shallow(keyword: str, value: Any, schemas: Any) -> Any:
    if keyword in _TEXTS and isinstance(value, str):
        return ""
    if keyword in _LISTS and isinstance(value, list):
        return value[: _LISTS[keyword]]
    if keyword not in HOLDS_SCHEMAS:
        return value
    if isinstance(value, dict) and keyword in _MAPS:
        return {name: each for name, each in value.items() if not isinstance(each, schemas)}
    if isinstance(value, schemas):
        return {}
    if isinstance(value, list):
        return [{} if isinstance(each, schemas) else each for each in value]
    return value


_MAPS = {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}


def _is_long(value: Any) -> bool:
    if isinstance(value, dict):
        return len(value) > PIECE or any(isinstance(each, list) and len(each) > PIECE for each in value.values())
    return isinstance(value, list) and len(value) > PIECE


def _parts(value: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(value, list):
        yield from ((first, value[first : first + PIECE]) for first in range(0, len(value), PIECE))
        return
    for name, each in value.items():
        if isinstance(each, list) and each:
            yield from ((first, {name: part}) for first, part in _parts(each))
        else:
            yield 0, {name: each}


@cache
def _validator(draft: Draft) -> Validator:
    kind = _VALIDATORS[draft]
    return kind(kind.META_SCHEMA, registry=EMPTY_REGISTRY)


@cache
def _known_keywords(draft: Draft) -> frozenset[str]:
    """Those that the metaschema speaks of, apart from `const` and `default`, which may be anything."""
    whole = METASCHEMAS.contents(draft.uri)
    parts = [METASCHEMAS.contents(urljoin(draft.uri, part["$ref"])) for part in whole.get("allOf", ())]
    named = {keyword for part in (whole, *parts) for keyword in part["properties"]}
    return frozenset(named - {"const", "default"})
