"""A schema and its references as documents: their schemas within schemas, and what each `$ref` names.

Two versions of one subject may be referred to by the same name, in two schemas that both are part of a third one;
and their texts have the same `$id`. So no name and no `$id` is taken as it stands: each `$ref` is resolved here,
in the document that has it, and written anew as the place of its target. What is neither in the document nor a
reference is refused. Nothing is ever fetched.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin

from goqueue.core.schemas.reading.drafts import Draft, draft_of
from goqueue.core.schemas.reading.keywords import JsonSchema, Subschema, children_of, is_schema
from goqueue.core.schemas.reading.parsing import WALKED_AT_ONCE, parsed
from goqueue.core.schemas.reading.refusing import pointer, refused
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.errors import InvalidSchema

DOCUMENTS_MAX = 256
DYNAMIC_MAX = 64
"""Limit of schemas that a `$dynamicRef` may name."""
REFERS = ("$ref", "$recursiveRef", "$dynamicRef")
RECURSIVE = "$recursiveAnchor"
URI = "urn:goqueue:schema:"


@dataclass(eq=False, slots=True)
class Place:
    """A schema in a document: the whole, one within another, or one that only a `$ref` names."""

    document: "Document"
    steps: tuple[str | int, ...]
    schema: JsonSchema
    resource: "SchemaResource"
    child: Subschema | None = None
    children: list["Place"] = field(default_factory=list)
    refs: dict[str, "Place"] = field(default_factory=dict)
    """What each keyword that refers names."""
    others: list["Place"] = field(default_factory=list)
    """What a `$dynamicRef` may name as well: that is decided by the value's way here."""

    @property
    def path(self) -> str:
        return f"{self.document.shown}{pointer(self.steps)}"

    @property
    def stands_alone(self) -> bool:
        """Its `$ref` is all that counts of it."""
        return "$ref" in self.refs and self.document.draft.ref_stands_alone


@dataclass(eq=False, slots=True)
class SchemaResource:
    """A part of a document that has an `$id`, or the document. `base` is what a relative `$ref` begins from."""

    base: str
    uri: str
    steps: tuple[str | int, ...]
    root: Place | None = None
    anchors: dict[str, Place] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Document:
    uri: str
    draft: Draft
    root: JsonSchema
    shown: str
    """What stands before its paths: nothing, or the name of the reference."""
    names: dict[str, "Document"] = field(default_factory=dict)
    resources: dict[str, SchemaResource] = field(default_factory=dict)
    places: dict[tuple[str | int, ...], Place] = field(default_factory=dict)


class Documents:
    """All documents of a schema. The first one is the schema itself."""

    def __init__(self) -> None:
        self.all: list[Document] = []
        self._known: dict[int, Document] = {}
        self._kept: list[ResolvedSchema] = []
        """They are known by their address, so none of them may go."""
        self.places: list[Place] = []
        self._new: list[Place] = []
        self._dynamic: dict[str, list[Place]] = {}

    @property
    def text_size(self) -> int:
        return sum(len(resolved.text) for resolved in self._kept)

    @property
    def main(self) -> Document:
        return self.all[0]

    # Reading

    def load(self, resolved: ResolvedSchema) -> Generator[None, None, None]:
        yield from self._load(resolved, "")
        for document in self.all:
            self._enter(document, (), document.root, None, None)
        yield from self._walk()

    def _load(self, resolved: ResolvedSchema, shown: str) -> Generator[None, None, Document]:
        known = self._known.get(id(resolved))
        if known is not None:
            return known
        if len(self.all) == DOCUMENTS_MAX:
            raise refused("#", f"more than {DOCUMENTS_MAX} references, with those of references; put some together")
        try:
            root = yield from parsed(resolved.text)
            document = self._document(root, shown)
        except InvalidSchema as error:
            raise InvalidSchema(f"{shown}{error.message}", **error.details) from None
        self._known[id(resolved)] = document
        self._kept.append(resolved)
        for name, reference in resolved.references:
            document.names[name] = yield from self._load(reference, f"{name} ")
        return document

    def _document(self, root: Any, shown: str) -> Document:
        if not is_schema(root):
            raise refused("#", "a schema is an object, true or false")
        document = Document(f"{URI}{len(self.all)}", draft_of(root), root, shown)
        self.all.append(document)
        return document

    def _walk(self) -> Generator[None, None, None]:
        """The schemas within the new ones. They wait on a list, since a document may be deep."""
        walked = 0
        while self._new:
            place = self._new.pop()
            for child in children_of(place.schema) if isinstance(place.schema, dict) else ():
                steps = (*place.steps, *child.steps)
                place.children.append(self._enter(place.document, steps, child.schema, place.resource, child))
                walked += 1
                if walked % WALKED_AT_ONCE == 0:
                    yield

    def _enter(
        self,
        document: Document,
        steps: tuple[str | int, ...],
        schema: JsonSchema,
        within: SchemaResource | None,
        child: Subschema | None,
    ) -> Place:
        known = document.places.get(steps)
        if known is not None:
            return known
        resource = self._resource(document, steps, schema, within)
        place = Place(document, steps, schema, resource, child)
        if resource is not within:
            resource.root = place
        self._note_anchors(place)
        document.places[steps] = place
        self.places.append(place)
        self._new.append(place)
        return place

    def _resource(
        self, document: Document, steps: tuple[str | int, ...], schema: JsonSchema, within: SchemaResource | None
    ) -> SchemaResource:
        """The one that this schema begins, or the one that it lies in."""
        named = _id_of(schema, document.draft)
        if named is None and within is not None:
            return within
        base = _joined(within.base if within else "", named or "", f"{document.shown}{pointer(steps)}")
        base = base.partition("#")[0]
        if base and base in document.resources:
            raise refused(f"{document.shown}{pointer(steps)}", f"a second schema with the id {base}")
        number = len(document.resources)
        uri = f"{document.uri}:{number}" if within else document.uri
        resource = document.resources[base] = SchemaResource(base, uri, steps)
        return resource

    def _note_anchors(self, place: Place) -> None:
        for name in _anchors_of(place.schema, place.document.draft):
            if place.resource.anchors.setdefault(name, place) is not place:
                raise refused(place.path, f"a second schema with the anchor {name}")
        for name in _dynamic_anchors_of(place.schema):
            same = self._dynamic.setdefault(name, [])
            same.append(place)
            if len(same) > DYNAMIC_MAX:
                raise refused(place.path, f"more than {DYNAMIC_MAX} schemas with the dynamic anchor {name}")

    # Resolving

    def resolve(self) -> Generator[None, None, None]:
        """Find what each `$ref` names. A target may lie where no keyword expects a schema, with more inside."""
        resolved = 0
        while resolved < len(self.places):
            place = self.places[resolved]
            if isinstance(place.schema, dict):
                self._resolve(place, place.schema)
            resolved += 1
            if self._new:
                yield from self._walk()
            if resolved % WALKED_AT_ONCE == 0:
                yield

    def _resolve(self, place: Place, schema: dict[str, Any]) -> None:
        for keyword in REFERS:
            named = schema.get(keyword)
            if isinstance(named, str):
                target = place.refs[keyword] = self._target(place, keyword, named)
                if keyword != "$ref":
                    place.others.extend(self._dynamic_targets(keyword, target))

    def _target(self, place: Place, keyword: str, named: str) -> Place:
        raw, _, fragment = named.partition("#")
        root = self._resource_root(place, raw) if raw else place.resource.root
        if root is None:
            raise refused(
                f"{place.path}/{keyword}",
                f"{named} is neither in the schema nor a reference of it; nothing is fetched, add a reference",
            )
        target = self._at_fragment(root, unquote(fragment))
        if target is None:
            raise refused(f"{place.path}/{keyword}", f"there is no schema at {named}")
        return target

    def _resource_root(self, place: Place, raw: str) -> Place | None:
        document = place.document
        absolute = _joined(place.resource.base, raw, f"{place.path}/$ref")
        if absolute in document.resources:
            return document.resources[absolute].root
        base = next(iter(document.resources))
        for name, other in document.names.items():
            if name in (raw, absolute) or _joined(base, name, f"{place.path}/$ref") == absolute:
                return other.places[()]
        return None

    def _at_fragment(self, root: Place, fragment: str) -> Place | None:
        if not fragment:
            return root
        if not fragment.startswith("/"):
            return root.resource.anchors.get(fragment)
        steps, value = root.steps, root.schema
        nearest = root
        for step in fragment[1:].split("/"):
            taken = _step(value, step.replace("~1", "/").replace("~0", "~"))
            if taken is None:
                return None
            value = taken[1]
            steps = (*steps, taken[0])
            nearest = root.document.places.get(steps, nearest)
        if not is_schema(value):
            return None
        return self._enter(root.document, steps, value, nearest.resource, None)

    def _dynamic_targets(self, keyword: str, target: Place) -> list[Place]:
        """All that it may name, whatever the way of a value to it."""
        schema = target.schema if isinstance(target.schema, dict) else {}
        name = RECURSIVE if keyword == "$recursiveRef" else schema.get("$dynamicAnchor")
        return self._dynamic.get(name, []) if isinstance(name, str) else []


def _id_of(schema: JsonSchema, draft: Draft) -> str | None:
    if not isinstance(schema, dict) or (draft.ref_stands_alone and "$ref" in schema):
        return None
    named = schema.get(draft.id_keyword)
    return named if isinstance(named, str) and not named.startswith("#") else None


def _anchors_of(schema: JsonSchema, draft: Draft) -> list[str]:
    if not isinstance(schema, dict):
        return []
    if draft.ref_stands_alone:
        named = schema.get(draft.id_keyword)
        return [named[1:]] if isinstance(named, str) and named.startswith("#") and "$ref" not in schema else []
    anchors = [schema.get("$anchor"), schema.get("$dynamicAnchor")]
    return [each for each in anchors if isinstance(each, str)]


def _dynamic_anchors_of(schema: JsonSchema) -> list[str]:
    if not isinstance(schema, dict):
        return []
    named = schema.get("$dynamicAnchor")
    anchors = [named] if isinstance(named, str) else []
    return [*anchors, RECURSIVE] if schema.get("$recursiveAnchor") is True else anchors


def _joined(base: str, relative: str, path: str) -> str:
    try:
        return urljoin(base, relative)
    except ValueError as error:
        raise refused(path, f"no URI: {error}") from None


def _step(value: Any, step: str) -> tuple[str | int, Any] | None:
    if isinstance(value, dict) and step in value:
        return step, value[step]
    if isinstance(value, list) and step.isascii() and step.isdecimal() and len(step) < 9 and int(step) < len(value):
        return int(step), value[int(step)]
    return None
