"""A schema's document, opened: its parts that have an `$id` or an anchor, and the schemas that it refers to.

A `$ref` is looked up in the document itself, then among its references by name, as they are or relative to `$id`.
Each referenced schema has names of its own. Nothing is ever fetched.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urljoin

from goqueue.core.schemas.compatibility.reading.keywords import (
    LIST_KEYWORDS,
    MAP_KEYWORDS,
    SCHEMA_KEYWORDS,
    SHAPES,
    Draft,
    draft_of,
)
from goqueue.core.schemas.compatibility.reading.values import Json, parsed
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.errors import InvalidSchema

DOCUMENTS_MAX = 1_000
"""Limit of the schemas that one schema refers to, directly and through others."""
DEFINITIONS_MAX = 20
"""Unknown keywords of a document that are looked at."""
INDEXED_AT_ONCE = 200
"""Schemas that are looked at before others get their turn."""


@dataclass(slots=True, eq=False)
class Resource:
    """A schema with a base URI of its own: a document, or a part of one that has an `$id`."""

    document: "Document"
    root: Json
    base: str
    draft: Draft
    anchors: dict[str, Json] = field(default_factory=dict)


class Document:
    def __init__(self, text: str, references: Mapping[str, "Document"]) -> None:
        root = parsed(text)
        draft = draft_of(root, Draft.DRAFT_2020_12)
        self.root = Resource(self, root, _base_of(root, draft, ""), draft)
        self.embedded: dict[int, Resource] = {}
        """By the identity of the schema that has the `$id`."""
        self.dynamic_anchors = Counter[str]()
        self.definitions = set(_definitions(root, text))
        """Keywords of the document that hold nothing but what references lead to, whatever they are called."""
        self._resources = {self.root.base: self.root}
        self._references = dict(_named(references, self.root.base))

    def resource_of(self, schema: Json, around: Resource) -> Resource:
        return self.embedded.get(id(schema), around)

    def indexed(self) -> Generator[None]:
        """Find the parts that have an `$id` or an anchor."""
        waiting, seen = [(self.root.root, self.root)], 0
        while waiting:
            schema, around = waiting.pop()
            if isinstance(schema, dict):
                resource = self._noted(schema, around)
                waiting.extend((each, resource) for each in subschemas(schema))
            seen += 1
            if seen % INDEXED_AT_ONCE == 0:
                yield

    def _noted(self, schema: dict[str, Json], around: Resource) -> Resource:
        base = _base_of(schema, around.draft, around.base)
        if schema is not self.root.root and base != around.base:
            around = Resource(self, schema, base, draft_of(schema, around.draft))
            self.embedded[id(schema)] = self._resources[base] = around
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(keyword), str):
                around.anchors.setdefault(name, schema)
                self.dynamic_anchors[name] += keyword == "$dynamicAnchor"
        if isinstance(identifier := schema.get("$id", schema.get("id")), str) and identifier.startswith("#"):
            around.anchors.setdefault(identifier[1:], schema)  # drafts 4 to 7
        self.dynamic_anchors[""] += schema.get("$recursiveAnchor") is True
        return around

    def found(self, reference: str, around: Resource) -> tuple[Json, Resource] | None:
        """What a `$ref` means; None: nothing here or among the references has this name."""
        if named := self._references.get(reference):
            return named.root.root, named.root
        uri, _, fragment = reference.partition("#")
        resource = around if not uri else self._resource(uri, around)
        return None if resource is None else _inside(resource, fragment)

    def _resource(self, uri: str, around: Resource) -> Resource | None:
        absolute = _joined(around.base, uri)
        own = self._resources.get(absolute) or self._resources.get(uri)
        named = self._references.get(uri) or self._references.get(absolute)
        return own or (None if named is None else named.root)


def _named(references: Mapping[str, Document], base: str) -> Iterator[tuple[str, Document]]:
    """By the `$id` that they have themselves, relative to the document's own, and by their plain name."""
    for document in references.values():
        if document.root.base:
            yield document.root.base, document
    yield from ((_joined(base, name), document) for name, document in references.items())
    yield from references.items()


def _definitions(root: Json, text: str) -> Iterator[str]:
    unknown = [each for each in root if each not in SHAPES] if isinstance(root, dict) else []
    for keyword in unknown[:DEFINITIONS_MAX]:
        if isinstance(root[keyword], dict) and f'"#/{keyword}/' in text:
            yield keyword


def _base_of(schema: Json, draft: Draft, around: str) -> str:
    keyword = "id" if draft is Draft.DRAFT_4 else "$id"
    identifier = schema.get(keyword) if isinstance(schema, dict) else None
    is_hidden = draft <= Draft.DRAFT_7 and isinstance(schema, dict) and "$ref" in schema
    if not isinstance(identifier, str) or identifier.startswith("#") or is_hidden:
        return around
    return _joined(around, identifier).partition("#")[0]


def _joined(base: str, uri: str) -> str:
    try:
        return urljoin(base, uri)
    except ValueError:
        return uri


def _inside(resource: Resource, fragment: str) -> tuple[Json, Resource] | None:
    if not fragment.startswith("/"):
        target = resource.root if not fragment else resource.anchors.get(unquote(fragment))
        return None if target is None else (target, resource.document.resource_of(target, resource))
    schema = resource.root
    for token in unquote(fragment)[1:].split("/"):
        schema = _member(schema, token.replace("~1", "/").replace("~0", "~"))
        if schema is None:
            return None
        resource = resource.document.resource_of(schema, resource)
    return schema, resource


def _member(value: Json, token: str) -> Json | None:
    if isinstance(value, dict):
        return value.get(token)
    is_place = isinstance(value, list) and token.isdecimal() and len(token) < 10 and int(token) < len(value)
    return value[int(token)] if is_place else None


def subschemas(schema: Mapping[str, Json]) -> Iterator[Json]:
    for keyword, value in schema.items():
        if keyword in LIST_KEYWORDS and isinstance(value, list):
            yield from value
        elif keyword in MAP_KEYWORDS and isinstance(value, dict):
            yield from value.values()
        elif keyword in SCHEMA_KEYWORDS:
            yield value


def opened(schema: ResolvedSchema) -> Generator[None, None, tuple[Document, Counter[str]]]:
    """The document, and how often each dynamic anchor occurs in it and in all that it refers to."""
    documents, waiting, anchors = dict[int, Document](), [schema], Counter[str]()
    while waiting:
        _check_count(len(documents) + len(waiting))
        missing = [each for _, each in waiting[-1].references if id(each) not in documents]
        if missing:
            waiting.extend(missing)
            continue
        top = waiting.pop()
        if id(top) not in documents:
            references = {name: documents[id(each)] for name, each in top.references}
            document = documents[id(top)] = Document(top.text, references)
            yield from document.indexed()
            anchors += document.dynamic_anchors
    return documents[id(schema)], anchors


def _check_count(count: int) -> None:
    if count > DOCUMENTS_MAX:
        raise InvalidSchema(
            f"the schema refers to more than {DOCUMENTS_MAX} others, directly and through them; refer to fewer",
            error_code=42201,
        )
