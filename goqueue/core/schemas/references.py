"""References between schemas: the schemas that a schema needs.

The schema that a reference names must exist, so references have no circles: a version can only refer to versions
that were there before. Nothing is ever fetched.
"""

from collections.abc import Sequence

from goqueue.core.schemas.schema import Reference, ResolvedSchema, Schema
from goqueue.core.schemas.text import invalid

REFERENCES_MAX = 64
"""Limit of the references of one schema."""
RESOLVED_MAX = 256
"""Limit of the schemas that a schema needs, each counted as often as it is reached."""
RESOLVED_SIZE_MAX = 4 * 1024 * 1024
"""Limit of the texts of a schema and all that it needs, counted likewise."""
REFERENCE_NAME_MAX = 1_024


def check_references(references: Sequence[Reference]) -> None:
    """Their number and names. What a `$ref` names is looked at when the schema is checked."""
    if len(references) > REFERENCES_MAX:
        raise invalid(f"the schema has {len(references)} references, and may have {REFERENCES_MAX}")
    names = [each.name for each in references]
    for name in names:
        if not 1 <= len(name) <= REFERENCE_NAME_MAX:
            raise invalid(f"a reference's name has 1 to {REFERENCE_NAME_MAX:,} characters")
        if names.count(name) > 1:
            raise invalid(f"the schema has two references {name[:100]!r}; give each its own name")


def resolve(schema: Schema, found: Sequence[ResolvedSchema]) -> ResolvedSchema:
    """The schema with what its references name, in their order."""
    for reference, target in zip(schema.references, found, strict=True):
        if target.type is not schema.type:
            raise invalid(f"the schema is {schema.type.value}, and {_shown(reference)} is {target.type.value}")
    resolved = ResolvedSchema(
        schema.text, schema.type, tuple((each.name, it) for each, it in zip(schema.references, found, strict=True))
    )
    _check_extent(resolved)
    return resolved


def _check_extent(resolved: ResolvedSchema) -> None:
    """Whoever follows every reference is done soon, although schemas may be reached in many ways."""
    count, size, waiting = 0, 0, [resolved]
    while waiting:
        schema = waiting.pop()
        waiting += [target for _, target in schema.references]
        count, size = count + 1, size + len(schema.text)
        if count > RESOLVED_MAX + 1:
            raise invalid(f"the schema needs more than {RESOLVED_MAX} others; join some of them")
        if size > RESOLVED_SIZE_MAX:
            raise invalid(f"the schema and those that it needs have more than {RESOLVED_SIZE_MAX:,} characters")


def _shown(reference: Reference) -> str:
    return f"version {reference.version} of subject {reference.subject[:100]!r}"
