"""Dependencies: what has to be there when a property is, by name or by schema."""

from collections import defaultdict

from goqueue.core.schemas.compatibility.comparing.comparison import Comparison, Steps, compared
from goqueue.core.schemas.compatibility.nodes.node import Node
from goqueue.core.schemas.compatibility.nodes.values import ABSENT, Json

KEYWORDS = ("dependencies", "dependentRequired", "dependentSchemas")


def dependencies(comparison: Comparison) -> Steps[None]:
    if "object" not in comparison.types:
        return
    given, asked = _by_name(comparison.writer), _by_name(comparison.reader)
    for name, entries in asked.items():
        for keyword, new in entries:
            old = [value for _, value in given.get(name, ())]
            if isinstance(new, list):
                _names(comparison, (keyword, name), [each for each in old if isinstance(each, list)], new)
                yield None
            else:
                schemas = [each for each in old if not isinstance(each, list)]
                yield from _schema(comparison, (keyword, name), schemas, new)
    for name, entries in given.items():
        for keyword, value in entries if name not in asked else ():
            kind = "ARRAY" if isinstance(value, list) else "SCHEMA"
            comparison.note(f"DEPENDENCY_{kind}_REMOVED", keyword, name, old=value)
        yield None


def _by_name(node: Node) -> dict[str, list[tuple[str, Json]]]:
    found = defaultdict[str, list[tuple[str, Json]]](list)
    for keyword in KEYWORDS:
        for name, value in node.own.get(keyword, {}).items():
            found[name].append((keyword, value))
    return found


def _names(comparison: Comparison, path: tuple[str, str], old: list[list[Json]], new: list[Json]) -> None:
    before, now = {str(name) for names in old for name in names}, set(map(str, new))
    was = old[0] if old else ABSENT
    if now < before:
        comparison.note("DEPENDENCY_ARRAY_NARROWED", *path, old=was, new=new)
    elif now and not old:
        comparison.refuse("DEPENDENCY_ARRAY_ADDED", *path, new=new)
    elif now != before:
        kind = "EXTENDED" if before < now else "CHANGED"
        comparison.refuse(f"DEPENDENCY_ARRAY_{kind}", *path, old=was, new=new)


def _schema(comparison: Comparison, path: tuple[str, str], old: list[Json], new: Json) -> Steps[None]:
    reader = comparison.reader.child(new)
    first = None
    for value in old:
        part = yield from compared(reader, comparison.writer.child(value))
        first = first or part
        if part.is_compatible:
            first = part
            break
    if first is not None:
        comparison.include(path, first)
    elif not reader.is_true:
        comparison.refuse("DEPENDENCY_SCHEMA_ADDED", *path, new=new)
    yield None
