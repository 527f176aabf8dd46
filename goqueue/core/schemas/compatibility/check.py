"""Whether a schema reads what another one wrote, and in what the two differ.

Both functions are generators, so that a shell can take turns: each step is a small piece of work.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from goqueue.core.schemas.compatibility.comparing.comparison import Comparer, Comparison, Rule, SchemaDifference
from goqueue.core.schemas.compatibility.comparing.rules import compare, compare_with_annotations, same_or_refused
from goqueue.core.schemas.compatibility.explanations import help_with
from goqueue.core.schemas.compatibility.nodes.node import Path, opened
from goqueue.core.schemas.compatibility.nodes.values import shown
from goqueue.core.schemas.findings import Finding
from goqueue.core.schemas.schema import ResolvedSchema

FINDINGS_MAX = 1_000
"""More of them help nobody, and would fill an answer."""
PATH_MAX = 500
"""Characters of a path that are shown."""
Located: TypeAlias = tuple[str, SchemaDifference]
"""A difference and its path."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two schemas."""

    type: str
    path: str
    old: str
    new: str
    breaks: bool
    """The reader refuses values that the writer's schema permits."""
    help: str
    """How that can be avoided; empty where nothing breaks."""


def findings(reader: ResolvedSchema, writer: ResolvedSchema) -> Generator[None, None, list[Finding]]:
    """What keeps `reader` from reading all that `writer` permits; none: it is compatible."""
    if reader == writer:
        return []
    root = yield from _compared(reader, writer, compare)
    found = list[Finding]()
    for path, each in (yield from _differences(root, only_breaking=True)):
        found.append(Finding(each.type, path, shown(each.old), shown(each.new), help_with(each)))
        yield
    return found


def changes(reader: ResolvedSchema, writer: ResolvedSchema) -> Generator[None, None, list[Change]]:
    """All differences, also those that break nothing."""
    root = yield from _compared(reader, writer, compare_with_annotations)
    found = list[Change]()
    for path, each in (yield from _differences(root, only_breaking=False)):
        text = help_with(each) if each.breaks else ""
        found.append(Change(each.type, path, shown(each.old), shown(each.new), each.breaks, text))
        yield
    return found


def _compared(reader: ResolvedSchema, writer: ResolvedSchema, rule: Rule) -> Generator[None, None, Comparison]:
    sides = (yield from opened(reader)), (yield from opened(writer))
    return (yield from Comparer(rule, same_or_refused).run(sides[0].root(), sides[1].root()))


def _differences(root: Comparison, *, only_breaking: bool) -> Generator[None, None, list[Located]]:
    """In the order of the reader's schema. What two places share is shown in the first."""
    waiting: list[tuple[Position | None, Comparison]] = [(None, root)]
    seen, found = set[int](), list[Located]()
    while waiting and len(found) < FINDINGS_MAX:
        place, comparison = waiting.pop()
        yield
        if id(comparison) in seen or (only_breaking and comparison.is_compatible):
            continue
        seen.add(id(comparison))
        shown_ones = [each for each in comparison.differences if each.breaks or not only_breaking]
        found += [(pointer(place, each.path), each) for each in shown_ones[: FINDINGS_MAX - len(found)]]
        waiting.extend((Position(place, path), part) for path, part in reversed(comparison.parts))
    return found


class Position(NamedTuple):
    """Where a comparison is: a path below another place. Paths may be thousands of steps long."""

    above: "Position | None"
    path: Path


def pointer(place: Position | None, path: Path) -> str:
    steps = [path]
    while place is not None:
        steps.append(place.path)
        place = place.above
    names = (name for step in reversed(steps) for name in step)
    text = "#/" + "/".join(name.replace("~", "~0").replace("/", "~1") for name in names)
    return text if len(text) <= PATH_MAX else f"{text[: PATH_MAX // 2]}…{text[-PATH_MAX // 2 :]}"
