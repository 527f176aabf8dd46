"""The validator of the publish path and Python's jsonschema are of the same opinion.

Left out are keywords in which they differ on purpose: `format` is asserted by none, patterns are those that both
engines read alike, and `multipleOf` is for integers, since fractions are a matter of rounding.
"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft6Validator, Draft7Validator, Draft201909Validator, Draft202012Validator
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.jsonschema import EMPTY_REGISTRY

from goqueue.core.records.record import encode_record
from goqueue.core.schemas.reading.drafts import Draft
from goqueue.core.schemas.text import finished
from goqueue.core.schemas.validation.checking import check_schema
from goqueue.core.schemas.validation.compiling import compile_schema
from goqueue.core.schemas.validation.judging import SchemaJudgement
from tests.core.schemas.given import resolved, subject, topic

VALIDATORS: dict[Draft, type[Validator]] = {
    Draft.DRAFT_4: Draft4Validator,
    Draft.DRAFT_6: Draft6Validator,
    Draft.DRAFT_7: Draft7Validator,
    Draft.DRAFT_2019_09: Draft201909Validator,
    Draft.DRAFT_2020_12: Draft202012Validator,
}
MODERN = (Draft.DRAFT_2019_09, Draft.DRAFT_2020_12)
NAMES = ("a", "b", "ab", "id")
PATTERNS = ("^a", "b$", "^[a-c]+$", "", "a|b", "^.{2}$")

names = st.sampled_from(NAMES)
counts = st.integers(0, 3)
numbers = st.one_of(st.integers(-3, 10), st.sampled_from((0.5, 1.0, -1.5, 2.0, 1e3)))
texts = st.sampled_from(("", "a", "b", "ab", "abc", "é", "😀"))
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
types = st.sampled_from(("null", "boolean", "integer", "number", "string", "array", "object"))


@st.composite
def schemas(draw: st.DrawFn, draft: Draft, levels: int = 3) -> Any:
    if draft is not Draft.DRAFT_4 and draw(st.integers(0, 9)) == 0:
        return draw(st.booleans())
    if draw(st.integers(0, 7)) == 0:
        return {"$ref": draw(st.sampled_from(("#/definitions/one", "#/definitions/two")))}
    keywords = _of_values(draft)
    if levels:
        keywords |= _of_parts(draft, levels)
    chosen = draw(st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True))
    schema = {keyword: draw(keywords[keyword]) for keyword in chosen}
    if draft is Draft.DRAFT_4:
        schema |= {f"exclusive{name[0].upper()}{name[1:]}": draw(st.booleans()) for name in _limits & schema.keys()}
    return schema


_limits = {"minimum", "maximum"}


def _of_values(draft: Draft) -> dict[str, st.SearchStrategy[Any]]:
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.one_of(types, st.lists(types, min_size=1, max_size=3, unique=True)),
        "enum": st.lists(scalars, min_size=1, max_size=3, unique_by=json.dumps),
        "minimum": numbers,
        "maximum": numbers,
        "multipleOf": st.integers(1, 3),
        "minLength": counts,
        "maxLength": counts,
        "pattern": st.sampled_from(PATTERNS),
        "minItems": counts,
        "maxItems": counts,
        "uniqueItems": st.booleans(),
        "minProperties": counts,
        "maxProperties": counts,
        "required": st.lists(names, min_size=1, max_size=3, unique=True),
        "format": st.just("email"),
    }
    if draft is not Draft.DRAFT_4:
        keywords |= {"const": values, "exclusiveMinimum": numbers, "exclusiveMaximum": numbers}
    if draft in MODERN:
        keywords["dependentRequired"] = st.dictionaries(names, st.lists(names, max_size=2, unique=True), max_size=2)
    return keywords


def _of_parts(draft: Draft, levels: int) -> dict[str, st.SearchStrategy[Any]]:
    inner = schemas(draft, levels - 1)
    many = st.lists(inner, min_size=1, max_size=3)
    by_name = st.dictionaries(names, inner, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "allOf": many,
        "anyOf": many,
        "oneOf": many,
        "not": inner,
        "properties": by_name,
        "patternProperties": st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=2),
        "additionalProperties": inner,
        "items": inner,
    }
    if draft is not Draft.DRAFT_4:
        keywords |= {"contains": inner, "propertyNames": inner}
    if draft in (Draft.DRAFT_7, *MODERN):
        keywords |= {"if": inner, "then": inner, "else": inner}
    if draft in MODERN:
        keywords |= {"dependentSchemas": by_name, "unevaluatedProperties": inner, "unevaluatedItems": inner}
    if draft is Draft.DRAFT_2020_12:
        keywords["prefixItems"] = many
    else:
        keywords |= {"items": st.one_of(inner, many), "additionalItems": inner}
    return keywords


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """Definitions name none, so that no schema names itself without an end; the root may be named from within."""
    draft = draw(st.sampled_from(list(Draft)))
    root = draw(schemas(draft))
    leaf = schemas(draft, 0).filter(lambda schema: not isinstance(schema, dict) or "$ref" not in schema)
    recursive = {"type": ["object", "array"], "properties": {"a": {"$ref": "#/definitions/two"}}}
    definitions = {"one": draw(leaf), "two": draw(st.one_of(leaf, st.just(recursive)))}
    whole = root if isinstance(root, dict) and "$ref" not in root else {"allOf": [root]}
    return {"$schema": draft.uri, **whole, "definitions": definitions}


def second_opinion(schema: Any, value: Any, registry: Registry[Any] = EMPTY_REGISTRY) -> bool:
    draft = next(draft for draft in Draft if draft.uri == schema["$schema"])
    return bool(VALIDATORS[draft](schema, registry=registry).is_valid(value))


@given(documents(), st.lists(values, min_size=1, max_size=5))
def test_both_validators_take_and_refuse_the_same(schema: Any, given_values: list[Any]) -> None:
    check_schema(resolved(schema))
    validator = compile_schema(resolved(schema))
    for value in given_values:
        assert validator.is_valid(value) == second_opinion(schema, value), value


@given(documents(), st.lists(values, min_size=1, max_size=5))
def test_a_message_is_refused_exactly_when_its_value_does_not_fit(schema: Any, given_values: list[Any]) -> None:
    body = b"".join(
        encode_record(number, 0, json.dumps(value).encode()) for number, value in enumerate(given_values)
    )
    verdict = finished(SchemaJudgement(topic(subject(schema))).verdict(body, len(given_values)))
    expected = [number for number, value in enumerate(given_values) if not second_opinion(schema, value)]
    assert [bad.index for bad in verdict.bad] == expected


@given(documents(), values)
def test_what_is_refused_is_explained_by_a_keyword_of_the_schema(schema: Any, value: Any) -> None:
    validator = compile_schema(resolved(schema))
    if not validator.is_valid(value):
        fault = finished(validator.explain(value))
        assert fault is None or fault.keyword == "falseSchema" or f'"{fault.keyword}"' in json.dumps(schema)
        assert fault is None or fault.path.startswith("$")
