"""Objects: their properties, those that are added and removed, and those that nobody lists.

What the writer's schema says of a property is sought in all its parts (contents.py). If that is nothing, the
property may have any value in what was written, although the schema does not name it: its content model is open.
"""

from goqueue.core.schemas.compatibility.comparing.comparison import Comparison, Steps, compared
from goqueue.core.schemas.compatibility.comparing.contents import (
    ContentModel,
    all_contents_of,
    contents_of,
    evaluated_at_least,
)
from goqueue.core.schemas.compatibility.comparing.equality import is_equal, is_same
from goqueue.core.schemas.compatibility.nodes.node import Node
from goqueue.core.schemas.compatibility.nodes.values import ABSENT, Json

CHEAP_AT_ONCE = 32
"""Properties that are passed over before others get their turn."""


def properties(comparison: Comparison) -> Steps[None]:
    if "object" not in comparison.types:
        return
    reader, writer = contents_of(comparison.reader), all_contents_of(comparison.writer)
    required = _required(comparison.writer)
    for name in reader.properties:
        if any(name in each.properties for each in writer):
            yield from _kept(comparison, reader, writer, name)
        else:
            yield from _added(comparison, reader, writer, name, name in required)
    yield from _requirements(comparison, reader, writer, required)
    yield from _patterns(comparison, reader, writer)
    yield from _others(comparison, reader, writer)


def unevaluated_properties(comparison: Comparison) -> Steps[None]:
    """Where other keywords beside it say which properties are evaluated; else it is as `additionalProperties`."""
    reader, writer = comparison.reader, comparison.writer
    if "object" not in comparison.types:
        return
    if "unevaluatedProperties" not in reader.own or reader.is_alone:
        if not writer.is_alone:
            comparison.note("UNEVALUATED_PROPERTIES_ADDED", "unevaluatedProperties", old=_rest_of(writer))
        return
    left = reader.child(reader.own["unevaluatedProperties"])
    evaluated = None if left.is_true else evaluated_at_least(reader, left)
    if evaluated is not None and not (yield from is_same(reader, writer)):
        yield from _others(comparison, evaluated, all_contents_of(writer))


def _rest_of(node: Node) -> Json:
    return node.own.get("unevaluatedProperties", ABSENT)


def _required(node: Node) -> set[str]:
    """The names that each value has, if it is an object."""
    return {name for part in node.parts for name in part.own.get("required", ()) if isinstance(name, str)}


# Properties that the reader lists


def _kept(comparison: Comparison, reader: ContentModel, writer: list[ContentModel], name: str) -> Steps[None]:
    """Both list it. One of the schemas that the writer has for it has to be read."""
    new = reader.node.child(reader.properties[name])
    found = yield from _best(new, [old for contents in writer for old in contents.of(name)])
    comparison.include(("properties", name), found)


def _best(reader: Node, writers: list[Node]) -> Steps[Comparison]:
    """The first that is read, else the first."""
    first = None
    for writer in writers:
        part = yield from compared(reader, writer, is_inside=True)
        first = first or part
        if part.is_compatible:
            return part
    assert first is not None
    return first


def _added(
    comparison: Comparison, reader: ContentModel, writer: list[ContentModel], name: str, was_required: bool
) -> Steps[None]:
    value = reader.properties[name]
    granted = [old for contents in writer for old in contents.of(name)]
    is_closed = any(old.is_false for old in granted)
    kind = _kind_of(reader.node, name, was_required)
    if not granted:
        _added_to_open(comparison, reader.node.child(value), name, kind)
    elif not is_closed:
        yield from _added_to_partially_open(comparison, reader, granted, name)
    if granted:
        add = comparison.refuse if kind == "REQUIRED_PROPERTY" else comparison.note
        add(f"{kind}_ADDED_TO_UNOPEN_CONTENT_MODEL", "properties", name, new=value)
    yield None


def _kind_of(reader: Node, name: str, was_required: bool) -> str:
    if was_required or name not in reader.own.get("required", ()):
        return "OPTIONAL_PROPERTY"
    has_default = reader.has_default(reader.own["properties"][name])
    return "REQUIRED_PROPERTY_WITH_DEFAULT" if has_default else "REQUIRED_PROPERTY"


def _added_to_open(comparison: Comparison, new: Node, name: str, kind: str) -> None:
    value = comparison.reader.own["properties"][name]
    if new.is_true and kind != "REQUIRED_PROPERTY":
        type_ = "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL"
        comparison.note(type_, "properties", name, new=value)
    else:
        comparison.refuse(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", "properties", name, new=value)


def _added_to_partially_open(
    comparison: Comparison, reader: ContentModel, granted: list[Node], name: str
) -> Steps[None]:
    value = reader.properties[name]
    part = yield from _best(reader.node.child(value), granted)
    comparison.include(("properties", name), part)
    add = comparison.note if part.is_compatible else comparison.refuse
    verdict = "IS_COVERED" if part.is_compatible else "NOT_COVERED"
    add(
        f"PROPERTY_ADDED_{verdict}_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "properties",
        name,
        old=granted[0].value,
        new=value,
    )


def _requirements(
    comparison: Comparison, reader: ContentModel, writer: list[ContentModel], required: set[str]
) -> Steps[None]:
    old, new = (list(node.own.get("required", ())) for node in (comparison.writer, comparison.reader))
    known, kept = {name for each in writer for name in each.properties}, set(map(str, new))
    for place, name in enumerate(each for each in new if isinstance(each, str) and each not in required):
        is_listed = name in reader.properties
        if is_listed and name not in known:
            continue  # that is said of the property that was added
        if is_listed and reader.node.has_default(reader.properties[name]):
            comparison.note("REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED", "required", name)
        else:
            comparison.refuse("REQUIRED_ATTRIBUTE_ADDED", "required", name, old=old or ABSENT, new=new)
        if place % CHEAP_AT_ONCE == 0:
            yield None
    for place, name in enumerate(old):
        if name not in kept:
            comparison.note("REQUIRED_ATTRIBUTE_REMOVED", "required", str(name))
        if place % CHEAP_AT_ONCE == 0:
            yield None


def _patterns(comparison: Comparison, reader: ContentModel, writer: list[ContentModel]) -> Steps[None]:
    """They have to be the same, in one part of the writer's schema."""
    if not reader.patterns and not writer[0].patterns:
        return
    for contents in writer:
        if reader.patterns.keys() == contents.patterns.keys() and (yield from _has_equal(reader, contents)):
            return
    old, new = writer[0].patterns or ABSENT, reader.patterns or ABSENT
    kind = "ADDED" if old is ABSENT else "REMOVED" if new is ABSENT else "CHANGED"
    comparison.refuse(f"PATTERN_PROPERTIES_{kind}", "patternProperties", old=old, new=new)


def _has_equal(reader: ContentModel, writer: ContentModel) -> Steps[bool]:
    for pattern, value in reader.patterns.items():
        old = writer.node.child(writer.patterns[pattern])
        if not (yield from is_equal(reader.node.child(value), old, is_inside=True)):
            return False
    return True


# Properties that the reader does not list


def _others(comparison: Comparison, reader: ContentModel, writer: list[ContentModel]) -> Steps[None]:
    for place, contents in enumerate(writer):
        for count, name in enumerate(contents.properties):
            if name not in reader.properties and not any(name in each.properties for each in writer[:place]):
                yield from _removed(comparison, reader, writer, name)
            if count % CHEAP_AT_ONCE == 0:
                yield None
    yield from _rest(comparison, reader, writer)


def _removed(comparison: Comparison, reader: ContentModel, writer: list[ContentModel], name: str) -> Steps[None]:
    granted = [old for contents in writer for old in contents.of(name)]
    accepting = [] if reader.rest is None else [reader.rest]
    if reader.is_matched(name):
        accepting = list(reader.of(name))
    else:
        granted += _granted_unless_matched(reader, writer, name)
    path, old = ("properties", name), granted[0].value
    if not accepting:
        comparison.note("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", *path, old=old)
    elif any(each.is_false for each in granted):
        comparison.note("PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", *path, old=old)
    elif any(each.is_false for each in accepting):
        comparison.refuse("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", *path, old=old)
    else:
        yield from _removed_from_partially_open(comparison, accepting, granted, name)


def _granted_unless_matched(reader: ContentModel, writer: list[ContentModel], name: str) -> list[Node]:
    """What the writer says of the rest, where it is unknown whether a pattern matches; the reader has it too."""
    said = [each for each in writer if each.is_matched(name) is None and name not in each.properties]
    return [each.rest for each in said if each.rest is not None and each.patterns.keys() <= reader.patterns.keys()]


def _removed_from_partially_open(
    comparison: Comparison, accepting: list[Node], granted: list[Node], name: str
) -> Steps[None]:
    is_covered = True
    for new in accepting:
        part = yield from _best(new, granted)
        comparison.include(("properties", name), part)
        is_covered = is_covered and part.is_compatible
    add = comparison.note if is_covered else comparison.refuse
    verdict = "IS_COVERED" if is_covered else "NOT_COVERED"
    type_ = f"PROPERTY_REMOVED_{verdict}_BY_PARTIALLY_OPEN_CONTENT_MODEL"
    add(type_, "properties", name, old=granted[0].value, new=accepting[0].value)


def _rest(comparison: Comparison, reader: ContentModel, writer: list[ContentModel]) -> Steps[None]:
    """All that neither side lists. One part of the writer's schema has to keep it within what the reader takes."""
    keyword = reader.rest_keyword if reader.rest is not None else writer[0].rest_keyword
    name = "UNEVALUATED_PROPERTIES" if keyword == "unevaluatedProperties" else "ADDITIONAL_PROPERTIES"
    old, new = _value(writer[0].rest), _value(reader.rest)
    if reader.rest is None:
        if writer[0].rest is not None:
            kind = "ADDED" if writer[0].is_closed else "EXTENDED"
            comparison.note(f"{name}_{kind}", keyword, old=old, new=comparison.reader.get(keyword))
        return
    limited = [each for each in writer if each.rest is not None and each.patterns.keys() <= reader.patterns.keys()]
    granted = [each.rest for each in limited if each.rest is not None]
    part = (yield from _best(reader.rest, granted)) if granted else None
    if part is not None and (part.is_compatible or not reader.is_closed):
        if part.writer.is_false and not reader.is_closed:
            comparison.note(f"{name}_ADDED", keyword, old=False, new=new)
        comparison.include((keyword,), part)
    else:
        kind = "REMOVED" if reader.is_closed else "NARROWED"
        comparison.refuse(f"{name}_{kind}", keyword, old=comparison.writer.get(keyword), new=new)


def _value(node: Node | None) -> Json:
    return ABSENT if node is None else node.value
