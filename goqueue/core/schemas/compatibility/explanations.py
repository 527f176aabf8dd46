"""The sentence that helps: what is wrong, and what would make the schemas compatible.

The reader is the schema that reads, the writer the one that the messages were written with. With BACKWARD the new
schema reads what the old one wrote, with FORWARD the old one reads what the new one writes.
"""

from collections.abc import Mapping

from goqueue.core.schemas.compatibility.comparing.comparison import SchemaDifference

STRICTER = "Confluent's registry overlooks this, goqueue does not."
NAME_MAX = 80
"""Characters of a name that a sentence shows."""

CLOSE = "close objects from their first version on, with `additionalProperties: false`"
SENTENCES: Mapping[str, str] = {
    # Types
    "TYPE_CHANGED": (
        "The writer permits values of a type that the reader refuses; keep the type, or permit both in the"
        " reader with an array of types or `anyOf`."
    ),
    "TYPE_NARROWED": "The reader takes integers alone and the writer permits fractions; keep `number`.",
    "SUM_TYPE_NARROWED": "The writer's union has members that the reader does not take; keep them in the reader.",
    "SUM_TYPE_MEMBERS_OVERLAP": (
        "A value that the writer permits may fit this member of `oneOf` and another one, and is refused then;"
        " tell the members apart by a required property with another `const` in each, or use `anyOf`. {stricter}"
    ),
    "COMBINED_TYPE_CHANGED": (
        "The schemas are combined another way; a union may become `anyOf`, and `allOf` one of its members or"
        " `anyOf`. Everything else needs the same keyword in both."
    ),
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": (
        "Not every member of the smaller side finds a member of its own on the other side that fits; make the"
        " reader's members take what the writer's permit."
    ),
    "PRODUCT_TYPE_EXTENDED": (
        "The reader's `allOf` has members that the writer knows nothing of, and each refuses values; remove"
        " them, or add them to the writer too."
    ),
    "NOT_TYPE_EXTENDED": "The reader's `not` excludes values that the writer permits; exclude the same or less.",
    # Values
    "ENUM_ARRAY_ADDED": "The reader takes these values alone and the writer permits others; remove the list.",
    "ENUM_ARRAY_NARROWED": "Values were taken off the list that the writer permits; keep them in the reader's.",
    "ENUM_ARRAY_CHANGED": (
        "The reader's list lacks values that the writer permits; keep these in it. A `const` may become an"
        " `enum` that has its value."
    ),
    "PATTERN_ADDED": "The writer permits strings that do not match the reader's `pattern`; remove it.",
    "PATTERN_CHANGED": (
        "Whether the new `pattern` matches all that the old one does is not decided; keep it, or remove it from"
        " the reader."
    ),
    "MULTIPLE_OF_ADDED": "The writer permits numbers that are no multiples; remove `multipleOf` from the reader.",
    "MULTIPLE_OF_EXPANDED": "The reader's multiple is larger than the writer's; take a divisor of the writer's.",
    "MULTIPLE_OF_CHANGED": "The reader's `multipleOf` is no divisor of the writer's; take one, or remove it.",
    "UNIQUE_ITEMS_ADDED": "The writer permits repeated items; remove `uniqueItems` from the reader.",
    # Objects
    "REQUIRED_ATTRIBUTE_ADDED": (
        "The reader requires `{name}` and values without it were permitted; do not require it, or give the"
        " property a `default` in the reader, or require it in the writer too."
    ),
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": (
        "The writer's schema is open: it permits a `{name}` with any value, which the reader may refuse. Give"
        " `{name}` the schema `true` in the reader, or list it in the writer too; or {close}."
    ),
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": (
        "The writer's schema is open: it permits a `{name}` with any value, which the reader may refuse. Give"
        " `{name}` a schema without constraints in the reader, or list it in the writer too; or {close}."
    ),
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": (
        "The reader requires `{name}`, which the writer's schema neither knows nor restricts. Do not require it,"
        " or list and require it in the writer too; and {close}."
    ),
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": (
        "The reader requires `{name}`, which the writer does not know; do not require it, or give it a `default`."
    ),
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "The writer permits a `{name}` by its `additionalProperties` or `patternProperties`, with values that"
        " the reader refuses; widen its schema."
    ),
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": (
        "The writer permits `{name}` and the reader is closed without it; keep the property in the reader, or"
        " open it with `additionalProperties`."
    ),
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "The writer permits `{name}` with values that the reader's `additionalProperties` or"
        " `patternProperties` refuse; keep the property, or widen these."
    ),
    "ADDITIONAL_PROPERTIES_REMOVED": (
        "The writer permits properties that it does not list and the reader refuses them; keep"
        " `additionalProperties` as it is."
    ),
    "ADDITIONAL_PROPERTIES_NARROWED": (
        "The writer permits any value in properties that it does not list and the reader does not; remove the"
        " schema of `additionalProperties`."
    ),
    "UNEVALUATED_PROPERTIES_REMOVED": (
        "The writer permits properties that it does not list and the reader refuses them; keep"
        " `unevaluatedProperties` as it is."
    ),
    "UNEVALUATED_PROPERTIES_NARROWED": (
        "The writer permits properties that it does not list with values that the reader refuses; widen the"
        " schema of `unevaluatedProperties`."
    ),
    "DEPENDENCY_ARRAY_ADDED": (
        "With `{name}` the reader asks for properties that the writer does not; remove the dependency."
    ),
    "DEPENDENCY_ARRAY_EXTENDED": (
        "With `{name}` the reader asks for more properties than the writer; ask for the same or fewer."
    ),
    "DEPENDENCY_ARRAY_CHANGED": (
        "With `{name}` the reader asks for other properties than the writer; ask for the same or fewer."
    ),
    "DEPENDENCY_SCHEMA_ADDED": (
        "With `{name}` the reader refuses values that the writer permits; remove the dependency."
    ),
    # Arrays
    "SCHEMA_ADDED": "The writer permits any items and the reader does not; remove `{name}` from the reader.",
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": (
        "The writer permits any item in this place, which the reader may refuse; give it the schema `true`, or"
        " close the writer's tuple before items are added."
    ),
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "The writer permits items in this place that the reader refuses; widen the item's schema."
    ),
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": (
        "The writer permits an item in this place and the reader's tuple ends before; keep the item."
    ),
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "The writer permits items in this place that the reader refuses behind its tuple; keep the item, or"
        " widen the schema of the others."
    ),
    "ADDITIONAL_ITEMS_REMOVED": (
        "The writer permits items behind its tuple and the reader refuses them; keep them permitted."
    ),
    "ADDITIONAL_ITEMS_NARROWED": (
        "The writer permits any items behind its tuple and the reader does not; remove their schema."
    ),
    "UNEVALUATED_ITEMS_REMOVED": (
        "The writer permits items that it does not list and the reader refuses them; keep them permitted."
    ),
    "UNEVALUATED_ITEMS_NARROWED": (
        "Beside other keywords nobody can tell what `unevaluatedItems` leaves; keep the schema as it is, or"
        " remove the keyword from the reader."
    ),
    # References
    "REFERENCE_WITHOUT_END": (
        "The schemas refer back to themselves before they say anything, so what they mean is unknown; write"
        " what is meant in place of the circle."
    ),
}
_BOUNDS: Mapping[str, str] = {
    "_ADDED": "The writer does not limit this and the reader does; remove `{name}` from the reader.",
    "_INCREASED": "The reader's `{name}` is higher than the writer's and refuses what lies below; lower it.",
    "_DECREASED": "The reader's `{name}` is lower than the writer's and refuses what lies above; raise it.",
}
_LIMITS = ("MAX_", "MIN_", "MAXIMUM_", "MINIMUM_", "EXCLUSIVE_")
_EQUAL = "How a change of `{name}` acts is not decided: it has to be the same in both schemas. {stricter}"


def help_with(difference: SchemaDifference) -> str:
    """For one that breaks."""
    name = difference.path[-1] if difference.path else "the schema"
    if len(name) > NAME_MAX:
        name = name[: NAME_MAX - 1] + "…"
    return _sentence(difference.type).format(name=name, close=CLOSE, stricter=STRICTER)


def _sentence(type_: str) -> str:
    if type_ in SENTENCES:
        return SENTENCES[type_]
    ending = "_" + type_.rpartition("_")[2]
    if type_.startswith(_LIMITS) and ending in _BOUNDS:
        return _BOUNDS[ending]
    return _EQUAL
