"""How two schemas are compared: the rule that calls all others, keyword by keyword.

Each keyword of the reader has to be granted by the writer's schema: by the same keyword there, else by one of its
conjuncts, else by all members of one of its unions. A schema permits what all its keywords permit, so what is
granted keyword by keyword is granted altogether.
"""

from collections.abc import Mapping
from functools import partial

from goqueue.core.schemas.compatibility.comparing.arrays import items, unevaluated_items
from goqueue.core.schemas.compatibility.comparing.comparison import Comparison, Rule, Steps, compared
from goqueue.core.schemas.compatibility.comparing.dependencies import dependencies
from goqueue.core.schemas.compatibility.comparing.enumerations import enumeration
from goqueue.core.schemas.compatibility.comparing.equality import (
    equal_schema,
    is_same,
    type_of_keyword,
    unknown_keywords,
)
from goqueue.core.schemas.compatibility.comparing.kinds import compare_types
from goqueue.core.schemas.compatibility.comparing.limits import SIMPLE_RULES, SimpleRule
from goqueue.core.schemas.compatibility.comparing.objects import properties, unevaluated_properties
from goqueue.core.schemas.compatibility.comparing.unions import (
    conjunction,
    is_read_by_members,
    read_of_union,
    union,
)
from goqueue.core.schemas.compatibility.nodes.node import Node
from goqueue.core.schemas.compatibility.nodes.shapes import ANNOTATIONS
from goqueue.core.schemas.compatibility.nodes.values import ABSENT, Absence, key_of


def compare(comparison: Comparison) -> Steps[None]:
    reader, writer = comparison.reader, comparison.writer
    if reader is writer or writer.is_false or _are_of_one_type(reader, writer):
        return
    if reader.is_false:
        comparison.refuse("TYPE_CHANGED", old=writer.value, new=False)
    elif reader.is_true:
        if not writer.is_true:
            comparison.note("TYPE_EXTENDED", old=writer.value, new=reader.value)
    elif writer.is_only_union and not reader.unions:
        yield from read_of_union(comparison, writer.unions[0])
    else:
        comparison.types = writer.types
        yield from _compare(comparison)


def compare_with_annotations(comparison: Comparison) -> Steps[None]:
    old, new = comparison.writer, comparison.reader
    for keyword in sorted({*ANNOTATIONS, "$id"}):
        values = old.get(keyword), new.get(keyword)
        if any(not isinstance(each, Absence) for each in values) and _are_different(*values):
            type_ = f"{type_of_keyword(keyword.removeprefix('$'))}_CHANGED"
            comparison.note(type_, keyword, old=values[0], new=values[1])
    yield from compare(comparison)


def _are_different(old: object, new: object) -> bool:
    return old is ABSENT or new is ABSENT or key_of(old) != key_of(new)


def _are_of_one_type(reader: Node, writer: Node) -> bool:
    """Most schemas say no more than a type: no need to look further."""
    is_plain = not (reader.combined or reader.unknown or writer.combined or writer.unknown)
    return is_plain and reader.own.keys() == {"type"} and reader.own == writer.own


def same_or_refused(comparison: Comparison) -> Steps[None]:
    """For schemas that refer back to themselves before they say anything: nobody knows what they mean."""
    reader, writer = comparison.reader, comparison.writer
    if not (yield from is_same(reader, writer)):
        comparison.refuse("REFERENCE_WITHOUT_END", old=writer.value, new=reader.value)


def _compare(comparison: Comparison) -> Steps[None]:
    is_comparable = compare_types(comparison)
    if is_comparable:
        yield from _own(comparison)
    if comparison.breaks_since(0, 0) and (yield from is_read_by_members(comparison)):
        comparison.forgive(0, 0)
    elif not is_comparable:
        return
    if comparison.reader.conjuncts or comparison.writer.conjuncts:
        yield from conjunction(comparison)
    for members in comparison.reader.unions:
        yield from union(comparison, members)


def _own(comparison: Comparison) -> Steps[None]:
    """The keywords that do not combine schemas."""
    reader, writer = comparison.reader, comparison.writer
    rules = dict[Rule, None]()
    for keyword in {**reader.own, **writer.own}:
        if simple := SIMPLE_RULES.get(keyword):
            _simply(comparison, simple, keyword)
        rules |= dict.fromkeys(RULES.get(keyword, ()))
    for rule in rules:
        yield from _with_parts(comparison, rule)
    if reader.unknown or writer.unknown:
        yield from _with_parts(comparison, unknown_keywords)


def _simply(comparison: Comparison, rule: SimpleRule, keyword: str) -> None:
    """Where the writer's own keyword does not grant it, perhaps one of a conjunct does."""
    before = len(comparison.differences), len(comparison.parts)
    rule(comparison, keyword)
    if len(comparison.writer.parts) > 1 and comparison.breaks_since(*before):
        for part in comparison.writer.parts[1:]:
            trial = comparison.trial(comparison.reader, part)
            rule(trial, keyword)
            if not trial.breaks_since(0, 0):
                return comparison.forgive(*before)
    return None


def _with_parts(comparison: Comparison, rule: Rule) -> Steps[None]:
    before = len(comparison.differences), len(comparison.parts)
    yield from rule(comparison)
    if len(comparison.writer.parts) > 1 and comparison.breaks_since(*before):
        for part in comparison.writer.parts[1:]:
            trial = comparison.trial(comparison.reader, part)
            yield from rule(trial)
            if not trial.breaks_since(0, 0):
                return comparison.forgive(*before)
    return None


def negation(comparison: Comparison) -> Steps[None]:
    """What is excluded is compared the other way round: the reader may exclude less."""
    reader, writer = comparison.reader, comparison.writer
    old, new = writer.own.get("not", ABSENT), reader.own.get("not", ABSENT)
    if isinstance(new, Absence):
        comparison.note("NOT_TYPE_NARROWED", "not", old=old)
    elif isinstance(old, Absence):
        comparison.refuse("NOT_TYPE_EXTENDED", "not", new=new)
    elif not (yield from compared(writer.child(old), reader.child(new))).is_compatible:
        comparison.refuse("NOT_TYPE_EXTENDED", "not", old=old, new=new)
    elif not (yield from compared(reader.child(new), writer.child(old))).is_compatible:
        comparison.note("NOT_TYPE_NARROWED", "not", old=old, new=new)


RULES: Mapping[str, tuple[Rule, ...]] = {
    **dict.fromkeys(("enum", "const"), (enumeration,)),
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties", "required"), (properties,)),
    **dict.fromkeys(("items", "prefixItems", "additionalItems"), (items,)),
    **dict.fromkeys(("dependencies", "dependentRequired", "dependentSchemas"), (dependencies,)),
    "unevaluatedProperties": (properties, unevaluated_properties),
    "unevaluatedItems": (items, unevaluated_items),
    "not": (negation,),
    **{
        keyword: (partial(equal_schema, keyword=keyword),)
        for keyword in ("contains", "propertyNames", "if", "then", "else")
    },
}
