"""What is called compatible is so: a second opinion on schemas, values and annotations that chance draws.

A writer's schema, a mutation of it that reads, and values near both: none that the writer's schema takes may be
refused by the reader's, if the checker says that it reads them. jsonschema-rs judges the values, and where it can
tell whether one schema covers the other, it must not deny it. Defaults are left out: a reader fills them in.
"""

import copy
import json
from dataclasses import dataclass
from random import Random
from typing import Any

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs.canonical import CanonicalizationError, Containment

from goqueue.core.schemas.compatibility.check import FINDINGS_MAX, PATH_MAX
from goqueue.core.schemas.compatibility.nodes.values import SHOWN_MAX
from tests.core.schemas.compatibility.comparing import Schema, found
from tests.core.schemas.compatibility.generated import Schemas, Values, places_in

DRAFTS = (7, 2019, 2020)
VALUES_OF_A_PAIR = 40
PAIRS_OF_AN_EXAMPLE = 8
PAIRS_TO_REFUTE = 20
SEEDS = st.integers(0, 2**32)


@dataclass(frozen=True)
class Pair:
    random: Random
    writer: Schema
    reader: Schema

    def refuting_value(self) -> Any:
        """A list of one value that the writer's schema takes and the reader's refuses; else an empty one."""
        writer, reader = validator_of(self.writer), validator_of(self.reader)
        near = [Values(self.random, each) for each in (self.writer, self.reader)]
        for place in range(VALUES_OF_A_PAIR):
            value = near[place % 2].value()
            if writer.is_valid(value) and not reader.is_valid(value):
                return [value]
        return []


def pairs_of(seed: int, count: int, *, unlike: float = 0.1) -> list[Pair]:
    random = Random(seed)
    pairs: list[Pair] = []
    while len(pairs) < count:
        schemas = Schemas(random, random.choice(DRAFTS))
        writer = schemas.document()
        reader = schemas.document() if random.random() < unlike else schemas.mutated(writer)
        if is_schema(writer) and is_schema(reader):
            pairs.append(Pair(random, writer, reader))
    return pairs


def is_schema(schema: Schema) -> bool:
    """Mutations may have made it something else: an empty `allOf`, a repeated type."""
    return jsonschema_rs.meta.is_valid(schema)


def validator_of(schema: Schema) -> Any:
    return jsonschema_rs.validator_for(schema, validate_formats=False, offline=True)


def covers(reader: Schema, writer: Schema) -> Containment:
    """It overflows the stack on some circles, so it is not asked about references."""
    if '"$ref"' in json.dumps([reader, writer]):
        return Containment.UNKNOWN
    try:
        return jsonschema_rs.canonicalize(reader).covers(jsonschema_rs.canonicalize(writer))
    except CanonicalizationError:
        return Containment.UNKNOWN


@given(SEEDS)
def test_no_value_refutes_what_is_called_compatible(seed: int) -> None:
    for pair in pairs_of(seed, PAIRS_TO_REFUTE):
        if not found(pair.reader, pair.writer):
            assert pair.refuting_value() == [], (pair.writer, pair.reader)
            assert covers(pair.reader, pair.writer) != Containment.NO, (pair.writer, pair.reader)


def test_the_values_are_near_enough_to_refute_what_is_not() -> None:
    """Else the test above could not fail: of the pairs that are called incompatible, values refute every third."""
    refused = [pair for pair in pairs_of(1, 400) if found(pair.reader, pair.writer)]
    refuted = [pair for pair in refused if pair.refuting_value()]
    assert len(refused) > 100
    assert len(refuted) > len(refused) / 3


def test_most_that_jsonschema_rs_proves_compatible_is_called_so() -> None:
    """Being on the safe side would be easy: to refuse everything. Some rules are stricter on purpose."""
    proven = [pair for pair in pairs_of(2, 400, unlike=0) if covers(pair.reader, pair.writer) == Containment.YES]
    accepted = [pair for pair in proven if not found(pair.reader, pair.writer)]
    assert len(proven) > 30
    assert len(accepted) > len(proven) * 0.7


@given(SEEDS)
def test_every_schema_reads_itself(seed: int) -> None:
    for pair in pairs_of(seed, PAIRS_OF_AN_EXAMPLE):
        assert found(pair.writer, pair.writer) == []


@given(SEEDS)
def test_annotations_never_matter(seed: int) -> None:
    for pair in pairs_of(seed, PAIRS_OF_AN_EXAMPLE):
        annotated = with_annotations(pair.random, pair.writer)
        assert found(annotated, pair.writer) == []
        assert found(pair.writer, annotated) == []


def with_annotations(random: Random, schema: Schema) -> Schema:
    annotated = copy.deepcopy(schema)
    for place in places_in(annotated):
        if isinstance(place, dict) and random.random() < 0.3:
            place[random.choice(("title", "description", "$comment", "format"))] = random.choice(("a", "email"))
            place["examples"] = [random.random()]
    return annotated


@given(SEEDS)
def test_findings_are_bounded_and_say_what_helps(seed: int) -> None:
    for pair in pairs_of(seed, PAIRS_OF_AN_EXAMPLE, unlike=0.5):
        findings = found(pair.reader, pair.writer)
        assert len(findings) <= FINDINGS_MAX
        for each in findings:
            assert each.path.startswith("#/")
            assert len(each.path) <= PATH_MAX + 1
            assert max(len(each.old), len(each.new)) <= SHOWN_MAX
            assert each.help.endswith(".")
            assert "{" not in each.help
