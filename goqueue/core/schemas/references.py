"""References between schemas: what a schema's `$ref` may name, and the schemas that it needs.

A `$ref` is local, or it is the `name` of one of the schema's references, as it stands or relative to `$id`. Nothing
is ever fetched. The schema that a reference names must exist, so references have no circles: a version can only
refer to versions that were there before.

A `$ref` counts where a schema may stand. Below `enum`, `const`, `default` and `examples` are values, and the
members of `properties` are names.
"""

from collections.abc import Generator, Iterator, Sequence
from urllib.parse import urljoin

from goqueue.core.schemas.schema import Reference, ResolvedSchema, SchemaType
from goqueue.core.schemas.text import Json, SchemaContent, invalid, is_text

REFERENCES_MAX = 64
"""Limit of the references of one schema."""
RESOLVED_MAX = 256
"""Limit of the schemas that a schema needs, each counted as often as it is reached."""
RESOLVED_SIZE_MAX = 4 * 1024 * 1024
"""Limit of the texts of a schema and all that it needs, counted likewise."""
REFERENCE_NAME_MAX = 1_024
ADDRESSES_MAX = 256
"""Limit of the different `$id`s in a schema."""

STEP = 256
"""Schemas that are looked at in one step."""

_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
"""Keywords whose members are schemas."""
_ONE_OR_MORE = ("items", "prefixItems", "allOf", "anyOf", "oneOf")
"""Keywords with a schema, or an array of them."""
_ONE = (
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
)
_REFS = ("$ref", "$dynamicRef", "$recursiveRef")


def checking_references(content: SchemaContent) -> Generator[None, None, None]:
    """Check their number and names, and that every `$ref` is local or one of them, in steps."""
    references = content.schema.references
    if len(references) > REFERENCES_MAX:
        raise invalid(f"the schema has {len(references)} references, and may have {REFERENCES_MAX}")
    names = [each.name for each in references]
    for name in names:
        if not 1 <= len(name) <= REFERENCE_NAME_MAX:
            raise invalid(f"a reference's name has 1 to {REFERENCE_NAME_MAX:,} characters")
        if names.count(name) > 1:
            raise invalid(f"the schema has two references {name[:100]!r}; give each its own name")
    if content.schema.type is SchemaType.JSON:
        yield from _checking_refs(content.tree, names)


def _checking_refs(tree: Json, names: Sequence[str]) -> Generator[None, None, None]:
    own, wanted = {""}, dict[tuple[str, str], None]()
    for number, (schema, base) in enumerate(_schemas_in(tree, "")):
        if number % STEP == 0:
            yield
        own.add(base)
        if len(own) > ADDRESSES_MAX:
            raise invalid(f"the schema has more than {ADDRESSES_MAX} `$id`s; split it")
        refs = (schema[each].partition("#")[0] for each in _REFS if is_text(schema.get(each)))
        wanted.update({(base, ref): None for ref in refs if ref})
    for base, ref in wanted:
        yield
        address = _joined(base, ref)
        if not (ref in names or address in own or any(address == _joined(base, name) for name in names)):
            raise invalid(
                f"$ref {ref[:200]!r} is neither in the schema nor the name of one of its references; nothing is "
                "fetched: register the schema that it names, and add a reference of this name"
            )


def _schemas_in(tree: Json, base: str) -> Iterator[tuple[dict[str, Json], str]]:
    """Each schema, from the outermost on, with the address that its `$ref` are relative to."""
    waiting = [(tree, base)]
    while waiting:
        schema, base = waiting.pop()
        if isinstance(schema, dict):
            base = _base_of(schema, base)
            yield schema, base
            waiting += [(child, base) for child in _below(schema)]


def _base_of(schema: dict[str, Json], base: str) -> str:
    """Draft 4 says `id`; one that only names a place in the schema moves nothing."""
    for keyword in ("$id", "id"):
        if is_text(schema.get(keyword)) and not schema[keyword].startswith("#"):
            return _joined(base, schema[keyword].partition("#")[0])
    return base


def _below(schema: dict[str, Json]) -> Iterator[Json]:
    for keyword in _BY_NAME:
        if isinstance(schema.get(keyword), dict):
            yield from schema[keyword].values()
    for keyword in _ONE_OR_MORE:
        found = schema.get(keyword)
        yield from found if isinstance(found, list) else [found]
    yield from (schema.get(keyword) for keyword in _ONE)


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:
        raise invalid(f"{address[:200]!r} is no address") from None


def resolve(content: SchemaContent, found: Sequence[ResolvedSchema]) -> ResolvedSchema:
    """The schema with what its references name, in their order."""
    schema = content.schema
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
