"""The keywords of JSON Schema: which draft has which, what their values look like, and what never matters."""

from collections.abc import Mapping

from goqueue.core.schemas.compatibility.nodes.values import Json
from goqueue.core.schemas.reading.drafts import Draft

_ORDER = tuple(Draft)


def is_since(draft: Draft, first: Draft) -> bool:
    """Whether the draft is this one, or newer."""
    return _ORDER.index(draft) >= _ORDER.index(first)


OPENAPI_ANNOTATIONS = frozenset({"discriminator", "example", "externalDocs", "xml"})
"""Pydantic writes the first one beside each `oneOf` that it tells apart by a property."""
ANNOTATIONS = OPENAPI_ANNOTATIONS | {
    "title",
    "description",
    "default",
    "examples",
    "$comment",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
}
"""They say something about values and refuse none. `format` is one of them: the broker does not check it."""
IDENTIFIERS = frozenset(
    {
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$vocabulary",
        "$defs",
        "definitions",
    }
)
IGNORED = ANNOTATIONS | IDENTIFIERS

_NUMBER = (int, float)
_SCHEMA = (dict, bool)
SHAPES: Mapping[str, tuple[type, ...]] = {
    "type": (str, list),
    "enum": (list,),
    "const": (object,),
    "maxLength": _NUMBER,
    "minLength": _NUMBER,
    "pattern": (str,),
    "maximum": _NUMBER,
    "minimum": _NUMBER,
    "exclusiveMaximum": (*_NUMBER, bool),
    "exclusiveMinimum": (*_NUMBER, bool),
    "multipleOf": _NUMBER,
    "properties": (dict,),
    "patternProperties": (dict,),
    "additionalProperties": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
    "propertyNames": _SCHEMA,
    "required": (list,),
    "maxProperties": _NUMBER,
    "minProperties": _NUMBER,
    "dependencies": (dict,),
    "dependentRequired": (dict,),
    "dependentSchemas": (dict,),
    "prefixItems": (list,),
    "items": (dict, bool, list),
    "additionalItems": _SCHEMA,
    "unevaluatedItems": _SCHEMA,
    "maxItems": _NUMBER,
    "minItems": _NUMBER,
    "uniqueItems": (bool,),
    "contains": _SCHEMA,
    "maxContains": _NUMBER,
    "minContains": _NUMBER,
    "not": _SCHEMA,
    "if": _SCHEMA,
    "then": _SCHEMA,
    "else": _SCHEMA,
    "allOf": (list,),
    "anyOf": (list,),
    "oneOf": (list,),
    "$ref": (str,),
    "$dynamicRef": (str,),
    "$recursiveRef": (str,),
}
"""The keywords that constrain values. One of another shape counts as unknown: it is compared to the letter."""

_SINCE: Mapping[str, Draft] = {
    "const": Draft.DRAFT_6,
    "contains": Draft.DRAFT_6,
    "propertyNames": Draft.DRAFT_6,
    "if": Draft.DRAFT_7,
    "then": Draft.DRAFT_7,
    "else": Draft.DRAFT_7,
    "dependentRequired": Draft.DRAFT_2019_09,
    "dependentSchemas": Draft.DRAFT_2019_09,
    "maxContains": Draft.DRAFT_2019_09,
    "minContains": Draft.DRAFT_2019_09,
    "unevaluatedProperties": Draft.DRAFT_2019_09,
    "unevaluatedItems": Draft.DRAFT_2019_09,
    "$recursiveRef": Draft.DRAFT_2019_09,
    "$dynamicRef": Draft.DRAFT_2020_12,
    "prefixItems": Draft.DRAFT_2020_12,
}
_KNOWN: Mapping[Draft, Mapping[str, tuple[type, ...]]] = {
    draft: {
        keyword: shape
        for keyword, shape in SHAPES.items()
        if is_since(draft, _SINCE.get(keyword, Draft.DRAFT_4))
        and not (keyword == "$recursiveRef" and draft is not Draft.DRAFT_2019_09)
    }
    for draft in Draft
}


def constraining(schema: Mapping[str, Json], draft: Draft) -> tuple[dict[str, Json], dict[str, Json]]:
    """The keywords that the draft knows, and those that it does not."""
    known, own, unknown = _KNOWN[draft], dict[str, Json](), dict[str, Json]()
    for keyword, value in schema.items():
        if keyword in IGNORED:
            continue
        shape = known.get(keyword)
        (own if shape is not None and _fits(value, shape) else unknown)[keyword] = value
    return own, unknown


def _fits(value: Json, shape: tuple[type, ...]) -> bool:
    return isinstance(value, shape) and (not isinstance(value, bool) or bool in shape or object in shape)
