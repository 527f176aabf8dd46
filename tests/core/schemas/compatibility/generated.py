"""Schemas, mutations of them, and values that try to tell two schemas apart. All from one source of chance."""

import copy
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

Json: TypeAlias = Any
Schema: TypeAlias = Json

NAMES = ("a", "b", "x_1", "x_2", "kind")
PATTERNS = ("^x_", "^a$", "b|kind", "(?=a)")
TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")
STRINGS = ("", "a", "bb", "ccc", "dddd", "one", "two")
NUMBERS = (-2, -1, 0, 1, 2, 3, 4, 6, 0.5, 1.5, 2.0)
SCALARS = (None, True, False, *STRINGS, *NUMBERS)
DIALECTS = {
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}


class Schemas:
    """Draws schemas of one dialect. Definitions refer to each other, and to themselves."""

    def __init__(self, random: Random, draft: int) -> None:
        self.random, self.draft = random, draft

    def document(self) -> Schema:
        root = self.schema(self.random.choice((0, 1, 1, 2, 3)))
        if not isinstance(root, dict):
            root = {"allOf": [root]}
        return self.with_definitions({"$schema": DIALECTS[self.draft], **root})

    def with_definitions(self, document: Schema) -> Schema:
        if '"$ref"' in json.dumps(document) and self.definitions not in document:
            document[self.definitions] = {name: self.schema(2) for name in ("D", "E")}
        return document

    @property
    def definitions(self) -> str:
        return "definitions" if self.draft < 2019 else "$defs"

    def schema(self, depth: int) -> Schema:
        chance = self.random.random()
        if chance < 0.06:
            return self.random.random() < 0.7
        if chance < 0.14:
            return {"$ref": f"#/{self.definitions}/{self.random.choice('DE')}"}
        schema: dict[str, Json] = {}
        kinds: list[Callable[[dict[str, Json], int], None]] = [self.scalar, self.object, self.array, self.combined]
        for kind in self.random.sample(kinds, self.random.choice((1, 1, 1, 2))):
            kind(schema, depth)
        return schema

    def scalar(self, schema: dict[str, Json], depth: int) -> None:
        if self.random.random() < 0.8:
            schema["type"] = self.types()
        some: dict[str, Callable[[], Json]] = {
            "enum": self.values,
            "maxLength": self.count,
            "minLength": self.count,
            "pattern": lambda: self.random.choice(("^a", "b+", "o$")),
            "maximum": self.number,
            "minimum": self.number,
            "exclusiveMaximum": self.number,
            "exclusiveMinimum": self.number,
            "multipleOf": lambda: self.random.choice((1, 2, 3, 4, 0.5)),
            "const": lambda: self.random.choice(SCALARS),
        }
        for keyword in self.random.sample(sorted(some), self.random.choice((0, 0, 1, 2))):
            schema[keyword] = some[keyword]()

    def object(self, schema: dict[str, Json], depth: int) -> None:
        if self.random.random() < 0.8:
            schema["type"] = "object"
        if self.random.random() < 0.8:
            schema["properties"] = {name: self.inner(depth) for name in self.names()}
        some: dict[str, Callable[[], Json]] = {
            "additionalProperties": lambda: self.random.choice((False, False, True, self.inner(depth))),
            "required": self.names,
            "patternProperties": lambda: {self.random.choice(PATTERNS): self.inner(depth)},
            "minProperties": self.count,
            "maxProperties": self.count,
            "propertyNames": lambda: {"maxLength": self.count()},
            "dependencies": lambda: self.dependencies(depth),
        }
        if self.draft >= 2019:
            some["unevaluatedProperties"] = lambda: self.random.choice((False, True, self.inner(depth)))
            some["dependentRequired"] = lambda: {self.random.choice(NAMES): self.names()}
            some["dependentSchemas"] = lambda: {self.random.choice(NAMES): self.inner(depth)}
        for keyword in self.random.sample(sorted(some), self.random.choice((0, 1, 1, 2, 3))):
            schema[keyword] = some[keyword]()

    def dependencies(self, depth: int) -> Json:
        value = self.names() if self.random.random() < 0.5 else self.inner(depth)
        return {self.random.choice(NAMES): value}

    def array(self, schema: dict[str, Json], depth: int) -> None:
        if self.random.random() < 0.8:
            schema["type"] = "array"
        tuple_, rest = ("prefixItems", "items") if self.draft >= 2020 else ("items", "additionalItems")
        if self.random.random() < 0.6:
            schema[tuple_] = [self.inner(depth) for _ in range(self.random.choice((1, 2, 3)))]
            if self.random.random() < 0.6:
                schema[rest] = self.inner(depth)
        elif self.random.random() < 0.8:
            schema["items"] = self.inner(depth)
        some: dict[str, Callable[[], Json]] = {
            "minItems": self.count,
            "maxItems": self.count,
            "uniqueItems": lambda: self.random.random() < 0.7,
            "contains": lambda: self.inner(0),
            "minContains": self.count,
            "maxContains": self.count,
        }
        if self.draft >= 2019:
            some["unevaluatedItems"] = lambda: self.inner(0)
        for keyword in self.random.sample(sorted(some), self.random.choice((0, 1, 1, 3))):
            schema[keyword] = some[keyword]()

    def combined(self, schema: dict[str, Json], depth: int) -> None:
        keyword = self.random.choice(("allOf", "anyOf", "oneOf", "anyOf", "oneOf", "not", "if", "$ref"))
        if keyword == "not":
            schema["not"] = self.inner(depth)
        elif keyword == "if":
            schema.update({"if": self.inner(depth), "then": self.inner(depth), "else": self.inner(depth)})
        elif keyword == "$ref":
            schema["$ref"] = f"#/{self.definitions}/{self.random.choice('DE')}"
            schema.setdefault("title", "beside")
        else:
            schema[keyword] = [self.inner(depth) for _ in range(self.random.choice((1, 2, 2, 3)))]

    def inner(self, depth: int) -> Schema:
        if depth > 0:
            return self.schema(depth - 1)
        return {"type": self.types()} if self.random.random() < 0.8 else self.random.random() < 0.7

    def types(self) -> Json:
        if self.random.random() < 0.7:
            return self.random.choice(TYPES)
        return self.random.sample(TYPES, self.random.choice((2, 2, 3)))

    def names(self) -> list[str]:
        return self.random.sample(NAMES, self.random.choice((0, 1, 1, 2, 3)))

    def values(self) -> list[Json]:
        return unequal(self.random.sample(SCALARS, self.random.choice((1, 2, 3, 4))))

    def count(self) -> int:
        return self.random.choice((0, 1, 1, 2, 3))

    def number(self) -> float:
        return self.random.choice(NUMBERS)

    # Mutations

    def mutated(self, document: Schema) -> Schema:
        document = copy.deepcopy(document)
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            places = [each for each in places_in(document) if isinstance(each, dict)]
            self.mutate(self.random.choice(places))
        return self.with_definitions(document)

    def mutate(self, schema: dict[str, Json]) -> None:
        keywords = sorted(schema.keys() - {"$schema", "$defs", "definitions"})
        chance = self.random.random()
        if chance < 0.25 and keywords:
            del schema[self.random.choice(keywords)]
        elif chance < 0.8 and keywords:
            self.change(schema, self.random.choice(keywords))
        else:
            other: dict[str, Json] = {}
            self.random.choice((self.scalar, self.object, self.array, self.combined))(other, 1)
            for keyword in self.random.sample(sorted(other), min(1, len(other))):
                schema.setdefault(keyword, other[keyword])

    def change(self, schema: dict[str, Json], keyword: str) -> None:
        value = schema[keyword]
        if isinstance(value, bool):
            schema[keyword] = not value
        elif keyword == "const":
            schema[keyword] = self.random.choice(SCALARS)
        elif isinstance(value, int | float):
            schema[keyword] = max(0.5, value + self.random.choice((-1, 1))) if "mult" in keyword else abs(value + 1)
        elif isinstance(value, list) and value:
            self.change_list(schema, keyword, list(value))
        elif isinstance(value, dict) and keyword in ("properties", "patternProperties"):
            self.change_map(value)
        elif keyword == "type":
            schema[keyword] = self.types()
        elif keyword == "$ref":
            schema[keyword] = f"#/{self.definitions}/{self.random.choice('DE')}"

    def change_list(self, schema: dict[str, Json], keyword: str, value: list[Json]) -> None:
        if len(value) > 1 and self.random.random() < 0.5:
            value.pop(self.random.randrange(len(value)))
        elif keyword in ("enum", "required", "type"):
            more = {"enum": SCALARS, "required": NAMES, "type": TYPES}[keyword]
            value = unequal([*value, self.random.choice(more)])
        else:
            value.insert(self.random.randrange(len(value) + 1), self.inner(1))
        schema[keyword] = value

    def change_map(self, value: dict[str, Json]) -> None:
        if value and self.random.random() < 0.5:
            del value[self.random.choice(sorted(value))]
        else:
            value.setdefault(self.random.choice(NAMES), self.inner(1))


def unequal(values: Sequence[Json]) -> list[Json]:
    """Without repetitions, in the sense of JSON: 1 is not true."""
    found: list[Json] = []
    for value in values:
        if not any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in found):
            found.append(value)
    return found


def places_in(schema: Schema) -> list[Schema]:
    """The schema and all schemas within, definitions too."""
    found = [schema]
    for each in found:  # grows meanwhile
        if isinstance(each, dict):
            for keyword, value in each.items():
                if keyword in ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"):
                    found.extend(value.values())
                elif isinstance(value, list):
                    found.extend(inner for inner in value if isinstance(inner, dict))
                elif isinstance(value, dict) and not keyword.startswith("dep"):
                    found.append(value)
    return found


class Values:
    """Draws values that lie near a schema: they mostly fit it, and come near its borders."""

    def __init__(self, random: Random, document: Schema) -> None:
        self.random, self.document = random, document

    def value(self) -> Json:
        return self.near(self.document, 5)

    def near(self, schema: Schema, depth: int) -> Json:
        if not isinstance(schema, dict) or depth == 0 or self.random.random() < 0.06:
            return self.anything(min(depth, 2))
        if "$ref" in schema:
            return self.near(self.target(schema["$ref"]), depth - 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        groups = [each for each in ("allOf", "anyOf", "oneOf") if schema.get(each)]
        if groups and self.random.random() < (0.4 if len(schema) > 1 else 1):
            return self.of_group(schema, self.random.choice(groups), depth)
        return self.of_type(schema, depth)

    def of_group(self, schema: dict[str, Json], group: str, depth: int) -> Json:
        values = [self.near(each, depth - 1) for each in schema[group]]
        if all(isinstance(each, dict) for each in values) and self.random.random() < 0.5:
            return {name: value for each in values for name, value in each.items()}
        return self.random.choice(values)

    def target(self, reference: str) -> Schema:
        _, keyword, name = reference.split("/")
        return self.document.get(keyword, {}).get(name, True)

    def of_type(self, schema: dict[str, Json], depth: int) -> Json:
        types = schema.get("type", TYPES)
        type_ = types if isinstance(types, str) else self.random.choice(list(types) or TYPES)
        if "type" not in schema:
            type_ = self.fitting(schema) or type_
        if type_ == "object":
            return self.object(schema, depth)
        if type_ == "array":
            return self.array(schema, depth)
        if type_ in ("integer", "number"):
            return self.number(schema, type_)
        if type_ == "string":
            limits = [schema[each] for each in ("maxLength", "minLength") if each in schema]
            size = self.random.choice(limits or [1]) + self.random.choice((0, 0, -1, 1))
            return self.random.choice((*STRINGS, "abo"[: max(0, size)], "z" * max(0, size)))
        return self.random.random() < 0.5 if type_ == "boolean" else None

    def fitting(self, schema: dict[str, Json]) -> str | None:
        if "properties" in schema or "required" in schema:
            return "object"
        return "array" if "items" in schema or "prefixItems" in schema else None

    def number(self, schema: dict[str, Json], type_: str) -> Json:
        keywords = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf")
        near: float = self.random.choice([schema[each] for each in keywords if each in schema] or NUMBERS)
        number = near + self.random.choice((0, 1, -1, 0.5, -0.5))
        return int(number) if type_ == "integer" else number

    def object(self, schema: dict[str, Json], depth: int) -> Json:
        properties = schema.get("properties", {})
        names = [name for name in properties if self.random.random() < 0.6]
        names += [name for name in schema.get("required", ()) if self.random.random() < 0.95]
        if self.random.random() < 0.4:
            names.append(self.random.choice((*NAMES, "zz")))
        return {name: self.near(self.property(schema, name), depth - 1) for name in sorted(set(names))}

    def property(self, schema: dict[str, Json], name: str) -> Schema:
        patterns = [value for pattern, value in schema.get("patternProperties", {}).items() if name[0] in pattern]
        own = [schema["properties"][name]] if name in schema.get("properties", {}) else []
        rest = [schema[each] for each in ("additionalProperties", "unevaluatedProperties") if each in schema]
        return self.random.choice(own or patterns or rest or [True])

    def array(self, schema: dict[str, Json], depth: int) -> Json:
        items, prefix = schema.get("items", True), schema.get("prefixItems", [])
        if isinstance(items, list):
            items, prefix = schema.get("additionalItems", True), items
        length = self.random.choice((0, 1, 2, 3, len(prefix), schema.get("minItems", 1), schema.get("maxItems", 1)))
        schemas = [prefix[place] if place < len(prefix) else items for place in range(length)]
        return [self.near(each, depth - 1) for each in schemas]

    def anything(self, depth: int) -> Json:
        chance = self.random.random()
        if depth and chance < 0.2:
            return {
                self.random.choice(NAMES): self.anything(depth - 1) for _ in range(self.random.choice((0, 1, 2)))
            }
        if depth and chance < 0.35:
            return [self.anything(depth - 1) for _ in range(self.random.choice((0, 1, 2, 3)))]
        return self.random.choice(SCALARS)
