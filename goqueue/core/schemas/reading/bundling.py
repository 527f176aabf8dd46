"""A schema and all that its references name as one document, for those who follow `$ref` to `#/…` and no further.

The referenced schemas stand below `$defs`, each by the name of its reference. Each `$ref` is written as the place
of its target, whatever name, `$id` or anchor it had.
"""

from collections.abc import Generator
from typing import Any, TypeAlias
from urllib.parse import quote

from goqueue.core.schemas.reading.documents import Document, Documents, Place
from goqueue.core.schemas.reading.keywords import JsonSchema
from goqueue.core.schemas.reading.parsing import WALKED_AT_ONCE
from goqueue.core.schemas.reading.refusing import pointer, refused
from goqueue.core.schemas.schema import ResolvedSchema

DEFS = "$defs"
_SAFE = "/~!$&'()*+,;=:@-._?"
Homes: TypeAlias = dict[int, tuple[str, ...]]
"""The steps to each document, by its address."""


def bundled(resolved: ResolvedSchema) -> Generator[None, None, JsonSchema]:
    """Raises `InvalidSchema`; yields after each small piece of work."""
    documents = Documents()
    yield from documents.load(resolved)
    yield from documents.resolve()
    homes = _homes(documents)
    for number, place in enumerate(documents.places):
        if isinstance(place.schema, dict):
            _write_place(place, place.schema, homes)
        if number % WALKED_AT_ONCE == 0:
            yield
    _put_together(documents, homes)
    return documents.main.root


def _write_place(place: Place, schema: dict[str, Any], homes: Homes) -> None:
    """An `$id` would be another place to begin from."""
    if "$ref" in place.refs:
        target = place.refs["$ref"]
        schema["$ref"] = "#" + quote(pointer((*homes[id(target.document)], *target.steps))[1:], _SAFE)
    if place.resource.root is place:
        schema.pop(place.document.draft.id_keyword, None)
    if homes[id(place.document)] and not place.steps:
        schema.pop("$schema", None)


def _homes(documents: Documents) -> Homes:
    """The steps to each document within the first one."""
    homes: Homes = {id(documents.main): ()}
    taken = set(_defs_of(documents.main))
    for document in documents.all[1:]:
        name = _free_name(document.shown.strip() or "reference", taken)
        taken.add(name)
        homes[id(document)] = (DEFS, name)
    return homes


def _defs_of(main: Document) -> dict[str, Any]:
    found = main.root.get(DEFS, {}) if isinstance(main.root, dict) else {}
    if not isinstance(found, dict):
        raise refused(f"#/{DEFS}", "it is an object of schemas")
    return found


def _free_name(name: str, taken: set[str]) -> str:
    found, number = name, 2
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    return found


def _put_together(documents: Documents, homes: Homes) -> None:
    main = documents.main.root
    if not isinstance(main, dict):
        return
    for document in documents.all[1:]:
        main.setdefault(DEFS, {})[homes[id(document)][1]] = document.root
