"""The text of a schema, from whatever a program has."""

import json
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field
from typing_extensions import TypedDict

import goqueue
from goqueue.client.schemas.registry import source_to_register
from goqueue.client.schemas.source import SchemaSource, references_of, source_of
from goqueue.core.schemas.schema import Reference
from tests.client.schemas.orders import Order, Payment

REGISTERED = goqueue.RegisteredSchema(
    "orders-value", 3, 7, UUID(int=1), "JSON", '{"$ref": "line"}', (Reference("line", "line", 2),)
)


def schema_of(kind: Any) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(source_of(kind).text)
    return schema


@pytest.mark.parametrize("text", ['{"type": "string"}', " {}\n", "true", '{"title": "grün"}'])
def test_a_text_is_kept_to_the_letter(text: str) -> None:
    assert source_of(text) == source_of(text.encode()) == SchemaSource(text, "JSON", ())


def test_a_map_or_a_bool_is_written_as_compact_json() -> None:
    assert source_of({"title": "grün", "type": ["string"]}).text == '{"title":"grün","type":["string"]}'
    assert source_of(True).text == "true"


def test_a_schema_of_the_registry_brings_its_references() -> None:
    assert source_of(REGISTERED) == SchemaSource('{"$ref": "line"}', "JSON", (Reference("line", "line", 2),))
    assert source_to_register(REGISTERED).references == REGISTERED.references
    assert source_to_register(REGISTERED, [("line", "other", 1)]).references == (Reference("line", "other", 1),)


def test_a_model_s_schema_is_that_of_its_written_objects() -> None:
    schema = schema_of(Order)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert (schema["type"], schema["required"]) == ("object", ["id"])
    assert list(schema["properties"]) == ["id", "note", "lines"]
    assert schema["properties"]["lines"]["items"] == {"$ref": "#/$defs/Line"}


def test_the_objects_of_types_are_closed_unless_they_say_otherwise() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")

    class OpenByHand(BaseModel):
        model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    class Named(TypedDict):
        id: int

    schema = schema_of(Order)
    assert schema["additionalProperties"] is schema["$defs"]["Line"]["additionalProperties"] is False
    assert schema_of(Payment)["additionalProperties"] is schema_of(Named)["additionalProperties"] is False
    assert schema_of(Open)["additionalProperties"] is schema_of(OpenByHand)["additionalProperties"] is True
    assert schema_of(dict[str, int])["additionalProperties"] == {"type": "integer"}


def test_what_a_model_writes_by_another_name_or_computes_is_in_its_schema() -> None:
    class Box(BaseModel):
        width: int = Field(serialization_alias="w")

        @computed_field  # type: ignore[prop-decorator]
        @property
        def area(self) -> int:
            return self.width**2

    assert list(schema_of(Box)["properties"]) == ["w", "area"]


def test_a_union_or_an_annotated_type_has_a_schema_too() -> None:
    assert len(schema_of(Order | Payment)["anyOf"]) == 2
    assert schema_of(Annotated[int, Field(ge=1)])["minimum"] == 1


class Unknown:
    """Nothing that pydantic knows."""


class Unwritable(BaseModel):
    call: type[Exception]
    model_config = ConfigDict(arbitrary_types_allowed=True)
    thing: Unknown


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (
            Unknown,
            "schema=Unknown is no type that pydantic knows; give a pydantic model, a dataclass or JSON Schema",
        ),
        (Unwritable, "Unwritable has no JSON Schema"),
        (None, "schema=None is no schema"),
        (3, "is no type that pydantic knows"),
        (b"\xff", "byte 0 is not"),
        ("\ud800", "lone surrogates"),
        ({"minimum": float("nan")}, "the schema is no JSON"),
        ({"enum": [b"x"]}, "the schema is no JSON"),
    ],
)
def test_what_is_no_schema_is_refused(schema: Any, fault: str) -> None:
    with pytest.raises(goqueue.InvalidConfig) as refused:
        source_of(schema)
    assert fault in str(refused.value)


def test_references_are_tuples_maps_or_references() -> None:
    wanted = Reference("line.json", "line", 2)
    named = {"name": "line.json", "subject": "line", "version": 2}
    assert references_of([wanted, ("line.json", "line", 2), named]) == (wanted,) * 3


@pytest.mark.parametrize(
    "bad", ["line", ("line", "line"), ("a", "b", 0), ("a", "b", True), (1, "b", 1), {"name": "a"}]
)
def test_what_is_no_reference_is_refused(bad: Any) -> None:
    with pytest.raises(goqueue.InvalidConfig, match="references"):
        references_of([bad])
