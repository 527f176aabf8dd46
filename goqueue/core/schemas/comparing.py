"""Whether a schema may follow the versions of its subject: it is valid, and compatible with them.

The work is done in steps, so that its owner can do others between. Whether a schema is valid and what makes two of
them incompatible is said by functions that are given (validation, compatibility).
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from goqueue.core.schemas.findings import Finding
from goqueue.core.schemas.registering import EarlierVersion
from goqueue.core.schemas.schema import ResolvedSchema, SchemaVersion
from goqueue.errors import IncompatibleSchema

Steps: TypeAlias = Generator[None, None, Any]

FINDINGS_TOLD_MAX = 3
"""Limit of the findings that a refusal has."""
TYPE_CHANGED = "SCHEMA_TYPE_CHANGED"


class Found(NamedTuple):
    """A finding, and the earlier version that it is about."""

    finding: Finding
    version: SchemaVersion


@dataclass(frozen=True, slots=True)
class Rules:
    """What is valid, and what is compatible."""

    checking: Callable[[ResolvedSchema], Generator[None, None, None]]
    """Raises `InvalidSchema`, with the path that is wrong."""
    findings: Callable[[ResolvedSchema, ResolvedSchema], Generator[None, None, list[Finding]]]
    """What of the second, which wrote, the first cannot read."""


def comparing(
    rules: Rules, resolved: ResolvedSchema, comparisons: Sequence[EarlierVersion], *, all_versions: bool = True
) -> Generator[None, None, list[Found]]:
    """What makes the schema incompatible with these versions, or with the first that it does not fit."""
    found: list[Found] = []
    for each in comparisons:
        found += [Found(finding, each.version) for finding in (yield from _with_one(rules, resolved, each))]
        if found and not all_versions:
            break
    return found


def _with_one(rules: Rules, new: ResolvedSchema, each: EarlierVersion) -> Generator[None, None, list[Finding]]:
    old = each.resolved
    if new.type is not old.type:
        return [_type_changed(new, old)]
    found: list[Finding] = []
    if each.is_backward:
        found += yield from rules.findings(new, old)
    if each.is_forward:
        found += yield from rules.findings(old, new)
    return list(dict.fromkeys(found))


def _type_changed(new: ResolvedSchema, old: ResolvedSchema) -> Finding:
    text = "a subject keeps its type; register this schema to another subject, or set the level to NONE"
    return Finding(TYPE_CHANGED, "#", old.type.value, new.type.value, text)


def incompatible(subject: str, level: str, found: Sequence[Found]) -> IncompatibleSchema:
    told = found[:FINDINGS_TOLD_MAX]
    more = f", and {len(found) - len(told)} more" if len(found) > len(told) else ""
    shown = "; ".join(f"{each.finding.type} at {each.finding.path}: {each.finding.help}" for each in told)
    return IncompatibleSchema(
        f"the schema does not fit version {found[0].version.version} of subject {subject[:100]!r}, whose level is "
        f"{level}: {shown}{more}",
        error_code=409,
    )
