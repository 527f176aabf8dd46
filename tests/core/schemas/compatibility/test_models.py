"""Schemas as they come from pydantic, and how such models evolve."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tests.core.schemas.compatibility.comparing import Schema, types_and_paths


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Line(Closed):
    sku: str
    count: int = Field(ge=1)


class CountedLine(Closed):
    sku: str
    count: float = Field(ge=0)


class Order(Closed):
    id: int
    lines: list[Line]
    parent: "Order | None" = None


class OrderWithNote(Closed):
    model_config = ConfigDict(title="Order")
    id: int
    lines: list[CountedLine]
    parent: "OrderWithNote | None" = None
    note: str | None = None


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Fish(BaseModel):
    kind: Literal["fish"] = "fish"
    depth: float


def schema_of(kind: Any) -> Schema:
    return TypeAdapter(kind).json_schema()


def test_a_closed_model_may_get_an_optional_field_and_wider_ones() -> None:
    assert types_and_paths(schema_of(OrderWithNote), schema_of(Order)) == []


def test_the_way_back_names_each_field() -> None:
    assert types_and_paths(schema_of(Order), schema_of(OrderWithNote)) == [
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/note",
        "TYPE_NARROWED #/properties/lines/items/properties/count",
        "MINIMUM_INCREASED #/properties/lines/items/properties/count/minimum",
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/properties/parent",
    ]


def test_an_open_model_may_not_get_a_field() -> None:
    class Before(BaseModel):
        id: int

    class After(BaseModel):
        id: int
        note: str | None = None

    expected = "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/note"
    assert types_and_paths(schema_of(After), schema_of(Before)) == [expected]
    assert types_and_paths(schema_of(Before), schema_of(After)) == []


def test_a_discriminated_union_may_get_a_member() -> None:
    before = schema_of(Annotated[Cat | Dog, Field(discriminator="kind")])
    after = schema_of(Annotated[Cat | Dog | Fish, Field(discriminator="kind")])
    assert "discriminator" in before, "OpenAPI's keyword lists the members once more, and is none of JSON Schema"
    assert types_and_paths(after, before) == []
    assert types_and_paths(before, after) == ["SUM_TYPE_NARROWED #/"]


def test_a_field_that_is_required_needs_a_default() -> None:
    class Before(Closed):
        id: int

    class After(Closed):
        id: int
        note: str

    class WithDefault(Closed):
        id: int
        note: str = ""

    required = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/note"
    assert types_and_paths(schema_of(After), schema_of(Before)) == [required]
    assert types_and_paths(schema_of(WithDefault), schema_of(Before)) == []
