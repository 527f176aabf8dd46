"""The list of all changes between two schemas, as `goqueue schema diff` shows it."""

from tests.core.schemas.compatibility.comparing import Schema, changed

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def lines(new: Schema, old: Schema) -> list[str]:
    return [
        f"{'-' if each.breaks else '+'} {each.type} {each.path} {each.old or '∅'} {each.new or '∅'}"
        for each in changed(new, old)
    ]


def test_what_breaks_and_what_does_not_are_listed_in_the_order_of_the_schema() -> None:
    old = {
        "type": "object",
        "title": "Order",
        "properties": {"id": INTEGER, "note": STRING | {"maxLength": 10}, "gone": STRING},
        "required": ["id"],
        "additionalProperties": False,
    }
    new = {
        "type": "object",
        "title": "An order",
        "properties": {"id": {"type": "number"}, "note": STRING | {"maxLength": 5}, "more": STRING},
        "additionalProperties": False,
    }
    assert lines(new, old) == [
        '+ TITLE_CHANGED #/title "Order" "An order"',
        '+ OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/more ∅ {"type": "string"}',
        "+ REQUIRED_ATTRIBUTE_REMOVED #/required/id ∅ ∅",
        '- PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/gone {"type": "string"} ∅',
        '+ TYPE_EXTENDED #/properties/id "integer" "number"',
        "- MAX_LENGTH_DECREASED #/properties/note/maxLength 10 5",
    ]


def test_equal_schemas_have_no_changes() -> None:
    schema = {"anyOf": [{"not": STRING}, {"items": STRING}], "enum": [1, "a"], "dependentSchemas": {"a": STRING}}
    assert lines(schema, schema) == []


def test_annotations_are_changes_that_break_nothing() -> None:
    old = STRING | {"title": "a", "default": 1, "format": "email", "$id": "http://example.com/a"}
    assert lines(STRING, old) == [
        '+ ID_CHANGED #/$id "http://example.com/a" ∅',
        "+ DEFAULT_CHANGED #/default 1 ∅",
        '+ FORMAT_CHANGED #/format "email" ∅',
        '+ TITLE_CHANGED #/title "a" ∅',
    ]


def test_the_members_of_unions_are_shown_beside_their_partners() -> None:
    old = {"anyOf": [STRING | {"maxLength": 3}, {"type": "null"}]}
    new = {"anyOf": [{"type": "null"}, INTEGER, STRING | {"maxLength": 5}]}
    assert [line.split(" ")[1:3] for line in lines(new, old)] == [
        ["SUM_TYPE_EXTENDED", "#/"],
        ["MAX_LENGTH_INCREASED", "#/anyOf/2/maxLength"],
    ]


def test_it_is_said_what_covers_a_property() -> None:
    patterns = {"patternProperties": {"^x_": STRING}, "additionalProperties": False}
    old = {"properties": {"x_1": STRING}} | patterns
    new = {"properties": {"x_2": STRING}} | patterns
    assert [line.split(" ")[1:3] for line in lines(new, old)] == [
        ["PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "#/properties/x_2"],
        ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", "#/properties/x_2"],
        ["PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "#/properties/x_1"],
    ]


def test_what_one_conjunct_grants_breaks_nothing() -> None:
    """The limit moved from the schema into a member of `allOf`."""
    old = {"allOf": [{"maxLength": 3}, {"minLength": 1}], "type": "string"}
    assert not any(line.startswith("-") for line in lines({"type": "string", "maxLength": 3}, old))
