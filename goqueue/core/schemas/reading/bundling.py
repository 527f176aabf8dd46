"""A schema and all that its references name as one document, for those who follow `$ref` to `#/…` and no further.

The referenced schemas stand below `$defs`, each by the name of its reference. Each `$ref` is written as the place of
its target, whatever name, `$id` or anchor it had.
"""

from collections.abc import Generator
from typing import Any

from goqueue.core.schemas.reading.documents import Document, Documents
from goqueue.core.schemas.reading.keywords import JsonSchema
from goqueue.core.schemas.reading.parsing import WALKED_AT_ONCE
from goqueue.core.schemas.reading.refusing import pointer, refused
from goqueue.core.schemas.schema import ResolvedSchema

DEFS = "$defs"


def bundled(resolved: ResolvedSchema) -> Generator[None, None, JsonSchema]:
    """Raises `InvalidSchema`; yields after each small piece of work."""
    documents = Documents()
    yield from documents.load(resolved)
    yield from documents.resolve()
    homes = _homes(documents)
    for number, place in enumerate(documents.places):
        if isinstance(place.schema, dict) and "$ref" in place.refs:
            target = place.refs["$ref"]
            place.schema["$ref"] = pointer((*homes[id(target.document)], *target.steps))
        if number % WALKED_AT_ONCE == 0:
            yield
    _put_together(documents, homes)
    return documents.main.root


def _homes(documents: Documents) -> dict[int, tuple[str, ...]]:
    """The steps to each document within the first one."""
    homes: dict[int, tuple[str, ...]] = {id(documents.main): ()}
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
        found, number = f"{name} {number}", number + 1
    return found


def _put_together(documents: Documents, homes: dict[int, tuple[str, ...]]) -> None:
    main = documents.main.root
    if not isinstance(main, dict):
        return
    for document in documents.all[1:]:
        main.setdefault(DEFS, {})[homes[id(document)][1]] = document.root
