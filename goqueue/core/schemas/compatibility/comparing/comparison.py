"""The comparison of two schemas, pair by pair, without recursion: schemas are as deep and circular as they like.

A rule is a generator. It yields an `Ask` to have two parts compared, and gets their `Comparison` back; it yields
None after a piece of work without one. The `Comparer` keeps the unfinished rules on a stack of its own.

A pair that is asked for while it is being compared counts as compatible: both schemas refer back to themselves, and
if nothing else is wrong nothing is. When such a pair turns out to be incompatible, all is compared once more with
that knowledge, until nothing new is found. What is incompatible stays so, hence that ends.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from goqueue.core.schemas.compatibility.nodes.node import Node, Path
from goqueue.core.schemas.compatibility.nodes.typesets import EVERYTHING
from goqueue.core.schemas.compatibility.nodes.values import ABSENT, Absence, Json
from goqueue.errors import InvalidSchema

COMPARISONS_MAX = 100_000
"""Limit of the pieces of work in one comparison of two schemas: some seconds."""
FORGOTTEN_AT_ONCE = 500

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Ask:
    reader: Node
    writer: Node
    is_inside: bool
    """The two hold for a part of the value: a property, an item. Else for the value itself."""


Steps: TypeAlias = Generator[Ask | None, "Comparison | None", Answer]
Rule: TypeAlias = Callable[["Comparison"], Steps[None]]

Stack: TypeAlias = list[tuple["Comparison", Steps[None]]]


def compared(reader: Node, writer: Node, *, is_inside: bool = False) -> Steps["Comparison"]:
    answer = yield Ask(reader, writer, is_inside)
    assert answer is not None
    return answer


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    type: str
    path: Path
    """Below the place of the comparison."""
    old: Json | Absence
    """In the schema of the writer."""
    new: Json | Absence
    """In the reader's schema."""
    breaks: bool
    """The reader refuses values that the writer's schema permits."""


@dataclass(slots=True, eq=False)
class Comparison:
    """Whether `reader` takes all that `writer` permits, and in what the two differ."""

    reader: Node
    writer: Node
    depth: int
    """How many parts of values lie around the value."""
    types: frozenset[str] = EVERYTHING
    """The types of values that the writer's schema permits, or more."""
    differences: list[SchemaDifference] = field(default_factory=list)
    parts: list[tuple[Path, "Comparison"]] = field(default_factory=list)
    """Comparisons that this one depends on."""
    is_finished: bool = False
    is_compatible: bool = True

    def note(self, type_: str, *path: str, old: Json | Absence = ABSENT, new: Json | Absence = ABSENT) -> None:
        """Note a difference that breaks nothing."""
        self.differences.append(SchemaDifference(type_, path, old, new, False))

    def refuse(self, type_: str, *path: str, old: Json | Absence = ABSENT, new: Json | Absence = ABSENT) -> None:
        self.differences.append(SchemaDifference(type_, path, old, new, True))

    def include(self, path: Path, part: "Comparison") -> None:
        self.parts.append((path, part))

    def trial(self, reader: Node, writer: Node) -> "Comparison":
        """To try a rule with other nodes."""
        return Comparison(reader, writer, self.depth, self.types)

    def breaks_since(self, differences: int, parts: int) -> bool:
        broken = any(each.breaks for each in self.differences[differences:])
        return broken or any(not each.is_compatible for _, each in self.parts[parts:])

    def forgive(self, differences: int, parts: int) -> None:
        """What was found since then breaks nothing: something else grants it."""
        del self.parts[parts:]
        self.differences[differences:] = [
            SchemaDifference(each.type, each.path, each.old, each.new, False)
            for each in self.differences[differences:]
        ]

    def finish(self) -> None:
        self.is_finished = True
        self.is_compatible = not self.breaks_since(0, 0)


@dataclass(slots=True)
class Comparer:
    rule: Rule
    """What is done with each pair."""
    endless: Rule
    """What is done with a pair that is asked for again before anything was said of a part of the value."""
    _spent: int = 0
    _refuted: set[tuple[int, int]] = field(default_factory=set)
    """Pairs that were found incompatible, in this round or one before."""
    _known: dict[tuple[int, int], Comparison] = field(default_factory=dict)
    _is_assumed: bool = False
    """Some pair counted as compatible before it was compared."""

    def run(self, reader: Node, writer: Node) -> Generator[None, None, Comparison]:
        while True:
            self._is_assumed = False
            root = yield from self._round(Ask(reader, writer, False))
            before = len(self._refuted)
            yield from self._forget()
            if not self._is_assumed or len(self._refuted) == before:
                return root

    def _forget(self) -> Generator[None]:
        """All but the pairs that are incompatible. To free a hundred thousand comparisons takes its time, too."""
        while self._known:
            pair, comparison = self._known.popitem()
            if self._is_assumed and not comparison.is_compatible:
                self._refuted.add(pair)
            if len(self._known) % FORGOTTEN_AT_ONCE == 0:
                yield

    def _round(self, first: Ask) -> Generator[None, None, Comparison]:
        stack = [self._begun(first, 0, None)]
        root, answer = stack[0][0], None
        while stack:
            comparison, steps = stack[-1]
            try:
                ask = steps.send(answer)
            except StopIteration:
                comparison.finish()
                answer = stack.pop()[0]
                yield
                continue
            self._spend()
            yield
            answer = None if ask is None else self._answered(ask, comparison, stack)
        return root

    def _answered(self, ask: Ask, asking: Comparison, stack: Stack) -> Comparison | None:
        """What is known of the pair, or assumed; else it is begun."""
        known = self._known.get((id(ask.reader), id(ask.writer)))
        depth = asking.depth + ask.is_inside
        if known is not None and (known.is_finished or known.depth < depth):
            self._is_assumed = self._is_assumed or not known.is_finished
            return known
        stack.append(self._begun(ask, depth, known))
        return None

    def _begun(self, ask: Ask, depth: int, unfinished: Comparison | None) -> tuple[Comparison, Steps[None]]:
        comparison = Comparison(ask.reader, ask.writer, depth)
        if unfinished is not None:
            return comparison, self.endless(comparison)
        pair = id(ask.reader), id(ask.writer)
        comparison.is_compatible = pair not in self._refuted
        self._known[pair] = comparison
        return comparison, self.rule(comparison)

    def _spend(self) -> None:
        self._spent += 1
        if self._spent > COMPARISONS_MAX:
            raise InvalidSchema(
                f"comparing the schemas takes more than {COMPARISONS_MAX:,} steps; they are too involved: split the"
                " schema into several subjects, or make its unions smaller",
                error_code=42201,
            )
