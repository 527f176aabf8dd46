"""The table of compatible changes, row by row, in both directions (docs/schema-compatibility.md)."""

from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import pytest

from tests.core.schemas.compatibility.comparing import Schema, changed, types_and_paths

DRAFT_4, DRAFT_7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
STRING, INTEGER, NUMBER, NULL = ({"type": name} for name in ("string", "integer", "number", "null"))


@dataclass(frozen=True)
class Row:
    name: str
    old: Schema
    new: Schema
    backward: tuple[str, ...] = ()
    """What is found when the new schema reads what the old one wrote."""
    forward: tuple[str, ...] = ()
    """The other way round."""


def limits(upper: str, lower: str, base: dict[str, Any]) -> list[Row]:
    """An upper and a lower limit of the same thing."""
    above, below = names_of(upper), names_of(lower)
    return [
        Row(f"{upper} is raised", base | {upper: 3}, base | {upper: 5}, (), (f"{above}_DECREASED #/{upper}",)),
        Row(f"{upper} is removed", base | {upper: 3}, base, (), (f"{above}_ADDED #/{upper}",)),
        Row(f"{lower} is lowered", base | {lower: 5}, base | {lower: 3}, (), (f"{below}_INCREASED #/{lower}",)),
        Row(f"{lower} is removed", base | {lower: 3}, base, (), (f"{below}_ADDED #/{lower}",)),
    ]


def names_of(keyword: str) -> str:
    return "".join("_" + each if each.isupper() else each for each in keyword).replace("-", "_").upper()


def closed(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def open_(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def partly(rest: Schema, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": rest}


def requiring(schema: Schema, *names: str) -> Schema:
    return schema | {"required": list(names)}


ANNOTATIONS = [
    Row("annotations", STRING, STRING | {keyword: value}, (), ())
    for keyword, value in {
        "title": "a",
        "description": "a",
        "default": "a",
        "$id": "http://example.com/a",
        "examples": ["a"],
        "$comment": "a",
        "format": "email",
        "deprecated": True,
        "readOnly": True,
    }.items()
]
TYPES = [
    Row("integer becomes number", INTEGER, NUMBER, (), ("TYPE_NARROWED #/",)),
    Row("a type is added", STRING, {"type": ["string", "null"]}, (), ("SUM_TYPE_NARROWED #/",)),
    Row("another type", STRING, INTEGER, ("TYPE_CHANGED #/",), ("TYPE_CHANGED #/",)),
    Row("anything", STRING, True, (), ("TYPE_CHANGED #/",)),
    Row("anything, as an object", STRING, {"title": "any"}, (), ("TYPE_CHANGED #/",)),
    Row("what was nothing", False, STRING, (), ("TYPE_CHANGED #/",)),
    Row("types are swapped", {"type": ["string", "null"]}, {"type": ["string", "integer"]},
        ("COMBINED_TYPE_SUBSCHEMAS_CHANGED #/",), ("COMBINED_TYPE_SUBSCHEMAS_CHANGED #/",)),
    Row("a limit comes with its own type", STRING, {"type": ["string", "integer"], "minimum": 0},
        (), ("SUM_TYPE_NARROWED #/",)),
    Row("a union's members have types", {"anyOf": [STRING, NULL], "minLength": 1},
        {"type": ["string", "null", "integer"], "minLength": 1, "minimum": 5},
        (), ("SUM_TYPE_NARROWED #/",)),
    Row("an array of types is a union", {"type": ["string", "null"]}, {"anyOf": [STRING, NULL]}),
]  # fmt: skip
VALUES = [
    Row("enum: a value is added", {"enum": ["a"]}, {"enum": ["b", "a"]}, (), ("ENUM_ARRAY_NARROWED #/enum",)),
    Row("enum: a value is changed", {"enum": ["a", "b"]}, {"enum": ["a", "c"]},
        ("ENUM_ARRAY_CHANGED #/enum",), ("ENUM_ARRAY_CHANGED #/enum",)),
    Row("enum is removed", STRING | {"enum": ["a"]}, STRING, (), ("ENUM_ARRAY_ADDED #/enum",)),
    Row("enum: another order", {"enum": ["a", 1, None]}, {"enum": [None, 1.0, "a"]}),
    Row("enum: 1 is not true", {"enum": [1]}, {"enum": [True]},
        ("ENUM_ARRAY_CHANGED #/enum",), ("ENUM_ARRAY_CHANGED #/enum",)),
    Row("const becomes enum", {"const": "a"}, {"enum": ["a", "b"]}, (), ("ENUM_ARRAY_NARROWED #/const",)),
    Row("const is changed", {"const": {"a": 1}}, {"const": {"a": 2}},
        ("ENUM_ARRAY_CHANGED #/const",), ("ENUM_ARRAY_CHANGED #/const",)),
    Row("values have a type", {"enum": ["a", "b"]}, STRING, (), ("ENUM_ARRAY_ADDED #/enum",)),
    Row("pattern is removed", STRING | {"pattern": "a"}, STRING, (), ("PATTERN_ADDED #/pattern",)),
    Row("pattern is changed", STRING | {"pattern": "a"}, STRING | {"pattern": "b"},
        ("PATTERN_CHANGED #/pattern",), ("PATTERN_CHANGED #/pattern",)),
    Row("multipleOf is removed", NUMBER | {"multipleOf": 2}, NUMBER, (), ("MULTIPLE_OF_ADDED #/multipleOf",)),
    Row("multipleOf becomes a divisor", NUMBER | {"multipleOf": 0.3}, NUMBER | {"multipleOf": 0.1},
        (), ("MULTIPLE_OF_EXPANDED #/multipleOf",)),
    Row("multipleOf is changed", NUMBER | {"multipleOf": 2}, NUMBER | {"multipleOf": 3},
        ("MULTIPLE_OF_CHANGED #/multipleOf",), ("MULTIPLE_OF_CHANGED #/multipleOf",)),
    Row("integers are multiples of one", INTEGER, INTEGER | {"multipleOf": 1}),
]  # fmt: skip
LIMITS = [
    *limits("maxLength", "minLength", STRING),
    *limits("maximum", "minimum", NUMBER),
    *limits("exclusiveMaximum", "exclusiveMinimum", NUMBER),
    *limits("maxItems", "minItems", {"type": "array"}),
    *limits("maxProperties", "minProperties", {"type": "object"}),
    *limits("maxContains", "minContains", {"type": "array", "contains": STRING})[:3],
    Row("minContains is one by default", {"contains": STRING, "minContains": 0}, {"contains": STRING},
        ("MIN_CONTAINS_INCREASED #/minContains",), ()),
    Row("an exclusive limit includes less", NUMBER | {"exclusiveMaximum": 5}, NUMBER | {"maximum": 5},
        (), ("EXCLUSIVE_MAXIMUM_ADDED #/exclusiveMaximum",)),
    Row("exclusive by a switch, in draft 4",
        {"$schema": DRAFT_4, "minimum": 5, "exclusiveMinimum": True}, {"$schema": DRAFT_4, "minimum": 5},
        (), ("EXCLUSIVE_MINIMUM_ADDED #/exclusiveMinimum",)),
    Row("nothing is shorter than nothing", STRING, STRING | {"minLength": 0}),
    Row("uniqueItems is removed", {"type": "array", "uniqueItems": True}, {"type": "array"},
        (), ("UNIQUE_ITEMS_ADDED #/uniqueItems",)),
]  # fmt: skip
REQUIRED = [
    Row("no longer required", requiring(open_(a=STRING), "a"), open_(a=STRING),
        (), ("REQUIRED_ATTRIBUTE_ADDED #/required/a",)),
    Row("required, with a default", open_(a=STRING | {"default": ""}),
        requiring(open_(a=STRING | {"default": ""}), "a")),
    Row("required without a property", open_(), requiring(open_(), "a"),
        ("REQUIRED_ATTRIBUTE_ADDED #/required/a",), ()),
]  # fmt: skip
ADDED = "ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"
PROPERTIES = [
    Row("optional, in a closed object", closed(a=STRING), closed(a=STRING, b=INTEGER),
        (), ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b",)),
    Row("required with default, in a closed object",
        closed(a=STRING), requiring(closed(a=STRING, b=INTEGER | {"default": 1}), "b"),
        (), ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b",)),
    Row("required, in a closed object", closed(a=STRING), requiring(closed(a=STRING, b=INTEGER), "b"),
        ("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",),
        ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b",)),
    Row("optional, in an open object", open_(a=STRING), open_(a=STRING, b=INTEGER),
        (f"OPTIONAL_PROPERTY_{ADDED}",), ()),
    Row("required, in an open object", open_(a=STRING), requiring(open_(a=STRING, b=INTEGER), "b"),
        (f"REQUIRED_PROPERTY_{ADDED}",), ()),
    Row("required with default, in an open object",
        open_(a=STRING), requiring(open_(a=STRING, b=INTEGER | {"default": 1}), "b"),
        (f"REQUIRED_PROPERTY_WITH_DEFAULT_{ADDED}",), ()),
    Row("anything, in an open object", open_(a=STRING), open_(a=STRING, b=True)),
    Row("anything but required, in an open object", open_(a=STRING), requiring(open_(a=STRING, b=True), "b"),
        (f"REQUIRED_PROPERTY_{ADDED}",), ()),
    Row("covered by additionalProperties", partly(INTEGER, a=STRING), partly(INTEGER, a=STRING, b=NUMBER),
        (), ("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b",
             "TYPE_NARROWED #/properties/b")),
    Row("not covered by additionalProperties", partly(STRING, a=STRING), partly(STRING, a=STRING, b=NUMBER),
        ("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b",
         "TYPE_CHANGED #/properties/b"),
        ("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b",
         "TYPE_CHANGED #/properties/b")),
    Row("covered by patternProperties",
        closed(a=STRING) | {"patternProperties": {"^x_": INTEGER}},
        closed(a=STRING, x_1=NUMBER) | {"patternProperties": {"^x_": INTEGER}},
        (), ()),  # the pattern holds for what is written, too
    Row("not covered by patternProperties",
        closed(a=STRING) | {"patternProperties": {"^x_": INTEGER}},
        closed(a=STRING, x_1=STRING) | {"patternProperties": {"^x_": INTEGER}},
        ("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/x_1",
         "TYPE_CHANGED #/properties/x_1"), ()),
    Row("a property that was false", closed(a=False), closed()),
    Row("nested", open_(a=closed(b=STRING)), open_(a=closed(b=INTEGER)),
        ("TYPE_CHANGED #/properties/a/properties/b",), ("TYPE_CHANGED #/properties/a/properties/b",)),
    Row("names that pointers escape", open_(**{"a/b~": STRING}), open_(**{"a/b~": INTEGER}),
        ("TYPE_CHANGED #/properties/a~1b~0",), ("TYPE_CHANGED #/properties/a~1b~0",)),
]  # fmt: skip
CONTENT_MODELS = [
    Row("additionalProperties: opened", closed(), open_(),
        (), ("ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties",)),
    Row("additionalProperties: opened partly", closed(), partly(STRING),
        (), ("ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties",)),
    Row("additionalProperties: opened wholly", partly(STRING), open_(),
        (), ("ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties",)),
    Row("additionalProperties: another schema", partly(INTEGER), partly(NUMBER),
        (), ("TYPE_NARROWED #/additionalProperties",)),
    Row("unevaluatedProperties: opened", {"type": "object", "unevaluatedProperties": False}, {"type": "object"},
        (), ("UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties",)),
    Row("unevaluatedProperties: opened partly",
        {"type": "object", "unevaluatedProperties": False}, {"type": "object", "unevaluatedProperties": STRING},
        (), ("UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties",)),
    Row("unevaluatedProperties: beside allOf",
        {"allOf": [open_(a=STRING), open_(b=STRING)], "unevaluatedProperties": False},
        {"allOf": [open_(a=STRING), open_(b=STRING), open_(c=STRING)], "unevaluatedProperties": False},
        (), ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/c",)),
]  # fmt: skip
ANY_NAMES = {"allOf": [{"additionalProperties": True}, {"minProperties": 0}], "unevaluatedProperties": False}
CONTENT_MODELS += [
    Row("unevaluatedProperties: beside what lists all", ANY_NAMES, ANY_NAMES | open_(a=STRING),
        ("TYPE_CHANGED #/", "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"), ()),
    Row("unevaluatedProperties: beside a union",
        {"anyOf": [open_(a=STRING), open_(b=True)], "unevaluatedProperties": False},
        {"anyOf": [open_(a=STRING), open_()], "unevaluatedProperties": False},
        ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a",
         "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"),
        ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a",)),
]  # fmt: skip
TUPLE, OLD_TUPLE = {"prefixItems": [STRING, INTEGER]}, {"$schema": DRAFT_7, "items": [STRING, INTEGER]}
ITEMS = [
    Row("items are removed", {"items": STRING}, {"type": "array"} | {}, ("TYPE_CHANGED #/",),
        ("SCHEMA_ADDED #/items",)),
    Row("items: wider", {"items": INTEGER}, {"items": NUMBER}, (), ("TYPE_NARROWED #/items",)),
    Row("tuple: an item of another type", TUPLE, {"prefixItems": [STRING, NUMBER]},
        (), ("TYPE_NARROWED #/prefixItems/1",)),
    Row("open tuple: an item is added", {"prefixItems": [STRING]}, TUPLE,
        ("ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/prefixItems/1",), ()),
    Row("open tuple: anything is added", {"prefixItems": [STRING]}, {"prefixItems": [STRING, True]}),
    Row("closed tuple: an item is added", {"prefixItems": [STRING], "items": False}, TUPLE | {"items": False},
        (), ("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/prefixItems/1",)),
    Row("tuple with others behind: covered",
        {"prefixItems": [STRING], "items": INTEGER}, {"prefixItems": [STRING, NUMBER], "items": INTEGER},
        (), ("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/prefixItems/1",
             "TYPE_NARROWED #/prefixItems/1")),
    Row("tuple with others behind: not covered",
        {"prefixItems": [STRING], "items": STRING}, {"prefixItems": [STRING, NUMBER], "items": STRING},
        ("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/prefixItems/1", "TYPE_CHANGED #/prefixItems/1"),
        ("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/prefixItems/1",
         "TYPE_CHANGED #/prefixItems/1")),
    Row("tuple: an item that was false", TUPLE | {"items": False},
        {"prefixItems": [STRING, INTEGER, False], "items": False}),
    Row("tuple: opened", TUPLE | {"items": False}, TUPLE, (), ("ADDITIONAL_ITEMS_REMOVED #/items",)),
    Row("tuple: opened partly", TUPLE | {"items": False}, TUPLE | {"items": STRING},
        (), ("ADDITIONAL_ITEMS_REMOVED #/items",)),
    Row("tuple: opened wholly", TUPLE | {"items": STRING}, TUPLE, (), ("ADDITIONAL_ITEMS_NARROWED #/items",)),
    Row("tuple before 2020-12", OLD_TUPLE | {"additionalItems": False}, OLD_TUPLE,
        (), ("ADDITIONAL_ITEMS_REMOVED #/additionalItems",)),
    Row("tuple before 2020-12: an item", OLD_TUPLE, {"$schema": DRAFT_7, "items": [STRING, NUMBER]},
        (), ("TYPE_NARROWED #/items/1",)),
    Row("a tuple in the words of another draft", OLD_TUPLE | {"additionalItems": False}, TUPLE | {"items": False}),
    Row("unevaluatedItems: beside a union",
        {"anyOf": [TUPLE, {"prefixItems": [STRING]}], "unevaluatedItems": False},
        {"anyOf": [TUPLE, {"prefixItems": [STRING, STRING]}], "unevaluatedItems": False},
        ("UNEVALUATED_ITEMS_NARROWED #/unevaluatedItems", "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/",
         "ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/anyOf/1/prefixItems/1"),
        ("UNEVALUATED_ITEMS_NARROWED #/unevaluatedItems",)),
    Row("unevaluatedItems: beside contains",
        {"contains": STRING, "unevaluatedItems": False}, {"contains": STRING, "unevaluatedItems": INTEGER},
        ("UNEVALUATED_ITEMS_NARROWED #/unevaluatedItems",), ("UNEVALUATED_ITEMS_NARROWED #/unevaluatedItems",)),
    Row("keywords that the draft does not know yet",
        {"$schema": DRAFT_7, "prefixItems": [STRING]}, {"prefixItems": [STRING]},
        ("ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/prefixItems/0", "PREFIX_ITEMS_REMOVED #/prefixItems"),
        ("PREFIX_ITEMS_ADDED #/prefixItems",)),
    Row("unevaluatedItems", TUPLE | {"unevaluatedItems": False}, TUPLE,
        (), ("UNEVALUATED_ITEMS_REMOVED #/unevaluatedItems",)),
]  # fmt: skip
NEEDS_B, NEEDS_BC = {"dependentRequired": {"a": ["b"]}}, {"dependentRequired": {"a": ["b", "c"]}}
DEPENDENCIES = [
    Row("dependencies are removed", NEEDS_B, {"dependentRequired": {}},
        (), ("DEPENDENCY_ARRAY_ADDED #/dependentRequired/a",)),
    Row("dependencies: fewer", NEEDS_BC, NEEDS_B, (), ("DEPENDENCY_ARRAY_EXTENDED #/dependentRequired/a",)),
    Row("dependencies: others", NEEDS_B, {"dependentRequired": {"a": ["c"]}},
        ("DEPENDENCY_ARRAY_CHANGED #/dependentRequired/a",), ("DEPENDENCY_ARRAY_CHANGED #/dependentRequired/a",)),
    Row("dependencies in the words of another draft", {"dependencies": {"a": ["b"]}}, NEEDS_B),
    Row("a dependent schema is removed", {"dependentSchemas": {"a": {"minProperties": 2}}},
        {"dependentSchemas": {}},
        (), ("DEPENDENCY_SCHEMA_ADDED #/dependentSchemas/a",)),
    Row("a dependent schema: wider",
        {"dependentSchemas": {"a": {"minProperties": 2}}}, {"dependentSchemas": {"a": {"minProperties": 1}}},
        (), ("MIN_PROPERTIES_INCREASED #/dependentSchemas/a/minProperties",)),
]  # fmt: skip
SHORT, LONG = {"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 5}
COMBINED = [
    Row("allOf: a member is removed", {"allOf": [STRING, {"maxLength": 3}]}, {"allOf": [STRING]},
        (), ("PRODUCT_TYPE_EXTENDED #/", "MAX_LENGTH_ADDED #/allOf/1/maxLength")),
    Row("allOf: one of three is removed",
        {"allOf": [STRING, {"maxLength": 3}, {"minLength": 1}]}, {"allOf": [STRING, {"maxLength": 3}]},
        (), ("PRODUCT_TYPE_EXTENDED #/", "MIN_LENGTH_ADDED #/allOf/2/minLength")),
    Row("allOf: the order does not matter", {"allOf": [STRING, {"maxLength": 3}]},
        {"allOf": [{"maxLength": 3}, STRING]}),
    Row("allOf becomes one of its members", {"allOf": [{"maxLength": 3}, STRING]}, STRING,
        (), ("PRODUCT_TYPE_EXTENDED #/", "MAX_LENGTH_ADDED #/allOf/0/maxLength")),
    Row("allOf becomes anyOf", {"allOf": [STRING, {"maxLength": 3}]}, {"anyOf": [STRING, {"maxLength": 3}]},
        (), ("COMBINED_TYPE_CHANGED #/",)),
    Row("anyOf: a member is added", {"anyOf": [STRING, NULL]}, {"anyOf": [INTEGER, STRING, NULL]},
        (), ("SUM_TYPE_NARROWED #/",)),
    Row("oneOf: a member is added", {"oneOf": [STRING, NULL]}, {"oneOf": [STRING, NULL, INTEGER]},
        (), ("SUM_TYPE_NARROWED #/",)),
    Row("a schema becomes a union that has it", STRING, {"anyOf": [NULL, STRING]}, (), ("SUM_TYPE_NARROWED #/",)),
    Row("a schema becomes a choice that has it", STRING, {"oneOf": [NULL, STRING]}, (), ("SUM_TYPE_NARROWED #/",)),
    Row("a schema becomes a union without it", STRING, {"anyOf": [NULL, INTEGER]}, ("TYPE_CHANGED #/",),
        ("TYPE_CHANGED #/",)),
    *(
        Row(f"{keyword} of one is that one", STRING, {keyword: [STRING]}) for keyword in ("allOf", "anyOf", "oneOf")
    ),
    Row("oneOf becomes anyOf", {"oneOf": [STRING, NULL]}, {"anyOf": [STRING, NULL]}, (),
        ("COMBINED_TYPE_CHANGED #/",)),
    Row("unions: a member is wider", {"anyOf": [SHORT, NULL]}, {"anyOf": [NULL, LONG]},
        (), ("COMBINED_TYPE_SUBSCHEMAS_CHANGED #/", "MAX_LENGTH_DECREASED #/anyOf/0/maxLength")),
    Row("unions: two members do not share a third",
        {"anyOf": [INTEGER, INTEGER | {"minimum": 3}]}, {"anyOf": [STRING, NUMBER]},
        ("COMBINED_TYPE_SUBSCHEMAS_CHANGED #/", "TYPE_CHANGED #/anyOf/0"),
        ("COMBINED_TYPE_SUBSCHEMAS_CHANGED #/", "TYPE_CHANGED #/anyOf/0", "TYPE_NARROWED #/anyOf/1",
         "MINIMUM_ADDED #/anyOf/1/minimum")),
    Row("unions: who was first makes room",
        {"anyOf": [SHORT, LONG]}, {"anyOf": [STRING | {"maxLength": 9}, SHORT]},
        (), ("COMBINED_TYPE_SUBSCHEMAS_CHANGED #/", "MAX_LENGTH_DECREASED #/anyOf/0/maxLength")),
    Row("oneOf: a new member takes values of another one",
        {"oneOf": [STRING, NULL]}, {"oneOf": [STRING, NULL, {"maxLength": 3}]},
        ("SUM_TYPE_MEMBERS_OVERLAP #/oneOf/2",), ("SUM_TYPE_NARROWED #/",)),
    Row("oneOf: what told members apart is gone",
        {"oneOf": [open_(kind={"const": "a"}) | {"required": ["kind"]},
          open_(kind={"const": "b"}) | {"required": ["kind"]}]},
        {"oneOf": [open_(kind={"const": "a"}), open_(kind={"const": "b"}) | {"required": ["kind"]}]},
        (), ("COMBINED_TYPE_SUBSCHEMAS_CHANGED #/", "REQUIRED_ATTRIBUTE_ADDED #/oneOf/0/required/kind")),
    Row("oneOf: members that default to different constants",
        {"oneOf": [open_(kind={"const": "a", "default": "a"}), open_(kind={"const": "b", "default": "b"})]},
        {"oneOf": [open_(kind={"const": kind, "default": kind}) for kind in "abc"]}, (), ("SUM_TYPE_NARROWED #/",)),
    Row("oneOf: a member that may lack its constant",
        {"oneOf": [open_(kind={"const": "a", "default": "a"}), NULL]},
        {"oneOf": [open_(kind={"const": "a", "default": "a"}), NULL, open_(kind={"const": "c"})]},
        ("SUM_TYPE_MEMBERS_OVERLAP #/oneOf/2",), ("SUM_TYPE_NARROWED #/",)),
    Row("not: less is excluded", {"not": NUMBER}, {"not": INTEGER}, (), ("NOT_TYPE_EXTENDED #/not",)),
    Row("not is removed", {"not": NUMBER}, {"not": False}, (), ("NOT_TYPE_EXTENDED #/not",)),
]  # fmt: skip
EQUAL = [
    *(
        Row(f"{keyword} is changed", {"type": "object", "if": True} | {keyword: one},
            {"type": "object", "if": True} | {keyword: other},
            (f"{names_of(keyword)}_CHANGED #/{keyword}",), (f"{names_of(keyword)}_CHANGED #/{keyword}",))
        for keyword, one, other in (
            ("if", {"required": ["a"]}, {"required": ["b"]}),
            ("then", {"required": ["a"]}, {"required": ["b"]}),
            ("else", {"required": ["a"]}, {"required": ["b"]}),
            ("propertyNames", {"maxLength": 3}, {"maxLength": 5}),
            ("contentEncoding", "base64", "base32"),
            ("x-unit", "m", "mm"),
        )
    ),
    Row("contains is changed", {"contains": INTEGER}, {"contains": NUMBER},
        ("CONTAINS_CHANGED #/contains",), ("CONTAINS_CHANGED #/contains",)),
    Row("contains is added", {"type": "array"}, {"type": "array", "contains": INTEGER},
        ("CONTAINS_ADDED #/contains",), ("CONTAINS_REMOVED #/contains",)),
    Row("patternProperties are changed", {"patternProperties": {"a": INTEGER}},
        {"patternProperties": {"a": NUMBER}},
        ("PATTERN_PROPERTIES_CHANGED #/patternProperties",), ("PATTERN_PROPERTIES_CHANGED #/patternProperties",)),
    Row("patternProperties: another pattern", {"patternProperties": {"a": INTEGER}},
        {"patternProperties": {"b": INTEGER}},
        ("PATTERN_PROPERTIES_CHANGED #/patternProperties",), ("PATTERN_PROPERTIES_CHANGED #/patternProperties",)),
    Row("an unknown keyword is added", STRING, STRING | {"x-unit": "m"},
        ("X_UNIT_ADDED #/x-unit",), ("X_UNIT_REMOVED #/x-unit",)),
    Row("annotations within do not matter", {"contains": INTEGER}, {"contains": INTEGER | {"title": "a"}}),
]  # fmt: skip
ROWS = [
    *ANNOTATIONS, *TYPES, *VALUES, *LIMITS, *REQUIRED, *PROPERTIES, *CONTENT_MODELS, *ITEMS, *DEPENDENCIES,
    *COMBINED, *EQUAL,
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_new_schema_reads_what_the_old_one_wrote_or_it_is_said_why_not(row: Row) -> None:
    assert tuple(types_and_paths(row.new, row.old)) == row.backward


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_old_schema_reads_what_the_new_one_writes_or_it_is_said_why_not(row: Row) -> None:
    assert tuple(types_and_paths(row.old, row.new)) == row.forward


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_changes_that_break_are_the_findings(row: Row) -> None:
    for new, old in ((row.new, row.old), (row.old, row.new)):
        breaking = [f"{each.type} {each.path}" for each in changed(new, old) if each.breaks]
        assert breaking == types_and_paths(new, old)
        assert all(bool(each.help) == each.breaks for each in changed(new, old))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_schemas_of_the_table_are_schemas(row: Row) -> None:
    for schema in (row.old, row.new):
        jsonschema_rs.meta.validate(schema)
