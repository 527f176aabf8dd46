"""Typed columns of JSON: Spark's verdicts are those of a plain reading of the schema."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from goqueue.spark.json.types import JsonObject, record_of
from tests.spark.json.model import fits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLAT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "price", "at"],
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "price": {"type": "number", "exclusiveMaximum": 1000, "minimum": -0.5},
        "customer": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-zé]"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": ["string", "null"], "format": "date"},
        "status": {"enum": ["new", "paid", None]},
        "paid": {"type": "boolean"},
        "step": {"type": "integer", "multipleOf": 3},
        "address": {
            "type": "object",
            "required": ["street"],
            "additionalProperties": False,
            "properties": {"street": {"type": "string"}, "no": {"type": ["integer", "null"]}},
        },
    },
}
"""Its documents can be told at one look."""
NESTED: dict[str, Any] = {
    "type": "object",
    "required": ["items"],
    "$defs": {"item": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}}},
    "properties": {
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "minItems": 1, "maxItems": 3},
        "tags": {"type": "array", "items": {"type": "string"}},
        "maybe": {"oneOf": [{"type": "null"}, {"type": "array", "items": {"type": ["number", "null"]}}]},
        "amounts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "free": {"type": "object"},
        "any": {},
        "strange name.": {"type": "string"},
    },
}
"""Its documents are walked."""

FITTING: dict[str, Any] = {
    "id": 7,
    "price": 9.5,
    "at": "2026-11-17T10:00:00Z",
    "customer": "ann",
    "address": {"street": "s", "no": 3},
    "items": [{"sku": "a"}],
    "tags": ["x"],
    "maybe": [1, None],
    "amounts": {"a": 1},
}
SCALARS = [
    "0", "-1", "3", "1.0", "1.5", "1e3", "1e-1", "-0.5", "-0.50001", "999.9999", "1000", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "1e400", "1e18", "123456789012345678901234567890.5", "null",
    "true", "false", '""', '"a"', '"abcdef"', '"éé"', '"A"', '"12"', '"new"', '"paid"', '"other"', "[]", "{}",
    '"2026-11-17"', '"2026-02-30"', '"2026-1-5"', '"0000-01-01"', '"2026-11-17T10:00:00Z"',
    '"2026-11-17T24:00:00Z"',
    '"2026-11-17t10:00:00.123456+02:00"', '"2026-11-17T10:00:00"', '"2026-11-17T10:00:60Z"', '" 2026-11-17"',
    '"2026-11-17T10:00:00.5-19:00"', '"2026-11-17T10:00:00+23:59"', '"2026-11-17T10:00:00+24:00"',
    '"2026-02-30T10:00:00+19:00"', '"2026-11-17T10:00:00-18:60"',
    '"2026-11-17T10:00:00+18:00"', '"\\u0041"', '"\\ud800"', '"\U0001f600"',
    '{"street": "x"}', '{"street": "x", "no": null}', '{"street": "x", "more": 1}', '{"no": 1}', '{"street": 1}',
    '[{"sku": "a"}, {"sku": "b", "more": [1]}]', '[{"sku": 1}]', '[{}]', "[null]", '["a", null]', '["a", 1]',
    "[1, 2.5, null]", '{"a": 1, "b": 2}', '{"a": "1"}', '{"a": null}', '[[]]', "01", "NaN", "'a'", "",
    '{"a":1,"a":2}',
]  # fmt: skip
WHOLE = [
    b"", b" ", b"not JSON", b"{", b"[]", b"null", b"12", b'"x"', b"\xff\xfe", b'{"id": 1} x', b'{"id": 1}} x',
    b'{"id": 1},"e":true} x', b'{"id": 1, "id": 2}', b"{'id': 1}", b'{"id": "\xff"}', b'\xef\xbb\xbf{}', None,
    b'[{"id": 1}]', b'{"id": 1}\n', b'1,"d":{}', b"{} {}",
]  # fmt: skip


def documents(schema: dict[str, Any], random: Random, count: int) -> list[bytes | None]:
    """A document that fits, each field once with each scalar; then some fields left out and some drawn anew."""
    names = [*schema["properties"], "unknown"]
    fitting = {name: json.dumps(FITTING[name]) for name in names if name in FITTING}
    made = [_document({**fitting, name: scalar}) for name in names for scalar in SCALARS]
    for _ in range(count):
        kept = {name: text for name, text in fitting.items() if random.random() < 0.95}
        drawn = {name: random.choice(SCALARS) for name in random.sample(names, random.choice((0, 1, 1, 2)))}
        made.append(_document(kept | drawn))
    return [*WHOLE, *made]


def _document(fields: dict[str, str]) -> bytes:
    return ("{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in fields.items()) + "}").encode()


def _known_schema(record: JsonObject) -> Any:
    from pyspark.sql.types import BinaryType, LongType, StructField, StructType  # noqa: PLC0415

    from goqueue.spark.json.columns import type_of  # noqa: PLC0415

    columns = [("number", LongType()), ("value", BinaryType()), ("_known", type_of(record))]
    return StructType([StructField(name, kind) for name, kind in columns])


def _knowing(record: JsonObject) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """For a task. One message at a time: most of them would take their neighbours along."""
    from goqueue.spark.json.arrow import ArrowReading  # noqa: PLC0415
    from goqueue.spark.schema import arrow_schema  # noqa: PLC0415

    schema = arrow_schema(_known_schema(record))

    def with_known(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            at_once, values = ArrowReading(record, schema.field("_known").type), batch.column("value")
            known = pa.concat_arrays([at_once.read(values[number : number + 1]) for number in range(len(values))])
            yield pa.RecordBatch.from_arrays([batch.column("number"), batch.column("value"), known], schema=schema)

    return with_known


def judged(spark: "SparkSession", schema: dict[str, Any], values: list[bytes | None]) -> "DataFrame":
    """With `_reason`, and with `_at_once` where the schema allows it: whether the message was known to fit."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from goqueue.spark.json.arrow import can_be_at_once  # noqa: PLC0415
    from goqueue.spark.json.columns import Parsing, keeps_limits  # noqa: PLC0415

    record = record_of(schema)
    parsing, value = Parsing(record, "e0123456789abcdef"), F.col("value")
    rows = [(number, None if value is None else bytearray(value)) for number, value in enumerate(values)]
    made = spark.createDataFrame(rows, "number long, value binary")
    if can_be_at_once(record):
        made = made.mapInArrow(_knowing(record), _known_schema(record)).repartition(2)
        made = made.withColumn("_at_once", F.col("_known").isNotNull() & keeps_limits(record, F.col("_known")))
    made = made.withColumn("_parsed", parsing.parsed(value))
    return made.select(
        "*", *parsing.columns(F.col("_parsed")), parsing.reason(value, F.col("_parsed")).alias("_reason")
    )


def test_verdicts_are_those_of_a_plain_reading(spark: "SparkSession") -> None:
    random = Random(7)
    for schema in (FLAT, NESTED):
        values = documents(schema, random, 1_500)
        reasons = {
            row.number: row._reason for row in judged(spark, schema, values).select("number", "_reason").collect()
        }
        assert [
            (value, reasons[number])
            for number, value in enumerate(values)
            if (reasons[number] is None) != fits(schema, value)
        ] == []
        assert 200 < sum(reason is None for reason in reasons.values()) < len(values) - 200
        assert len(set(reasons.values())) < 60, "a reason says the place and the rule, never the value"


def test_what_is_known_to_fit_at_once_fits_and_has_the_same_values(spark: "SparkSession") -> None:
    values = documents(FLAT, Random(8), 1_500)
    values += [order.encode() for order in _spelt_otherwise()]
    rows = judged(spark, FLAT, values).where("_at_once").collect()
    assert len(rows) > 300
    assert any(b'"id"' in bytes(row.value)[:9] and b"u00e9" in bytes(row.value) for row in rows)
    for row in rows:
        assert fits(FLAT, None if row.value is None else bytes(row.value)), row.value
        assert [row._known[name] for name in FLAT["properties"]] == [row[name] for name in FLAT["properties"]]


def _spelt_otherwise() -> list[str]:
    """Orders, spaces, escapes, fields that come twice or are unknown, and what only looks like a field."""
    fields = ['"id": 1', '"price": -0.25', '"customer": "a\\n\\u00e9"', '"at": "2026-11-17T10:00:00Z"']
    made = [", ".join(fields), *(", ".join(Random(seed).sample(fields, 4)) for seed in range(20))]
    made += [f"{made[0]}, {fields[seed]}" for seed in range(4)]
    made += [
        made[0] + more for more in (",", ", ", ' "x": 1', ', "x": 1', ', "customer ": "a"', "}", "} {}", "\n\t")
    ]
    made += [made[0].replace('"a', '"a \\"id\\": ')]
    return [f" {{{each} }}\n" for each in made]


def test_what_fits_is_there_with_its_types(spark: "SparkSession") -> None:
    flat = (
        b'{"id": 7.0, "price": 2, "at": "2026-11-17t10:00:00.25+02:00", "day": "2026-01-02",'
        b' "address": {"street": "s"}}'
    )
    [row] = judged(spark, FLAT, [flat]).collect()
    assert (row._reason, row.id, row.price, row.day, row.customer) == (None, 7, 2.0, date(2026, 1, 2), None)
    assert row["at"].astimezone(UTC) == datetime(2026, 11, 17, 8, 0, 0, 250_000, UTC)
    assert row.address.asDict() == {"street": "s", "no": None}
    far = [b'{"id": 1, "price": 2, "at": "2026-11-17T10:00:00.5%s"}' % each for each in (b"-23:59", b"+19:30")]
    moments = [each["at"].astimezone(UTC) for each in judged(spark, FLAT, list(far)).orderBy("number").collect()]
    assert moments == [
        datetime(2026, 11, 18, 9, 59, 0, 500_000, UTC),
        datetime(2026, 11, 16, 14, 30, 0, 500_000, UTC),
    ]
    nested = (
        b'{"items": [{"sku": "a"}, {"sku": "b"}], "maybe": [1, null], "amounts": {"x": 1}, '
        b'"free": {"a": [1]}, "any": 3}'
    )
    [row] = judged(spark, NESTED, [nested]).collect()
    assert [item.sku for item in row["items"]] == ["a", "b"]
    assert (row.maybe, row.amounts, row.free, row["any"]) == ([1.0, None], {"x": 1}, '{"a":[1]}', "3")
    assert row.tags is None


def test_reasons_name_the_place_and_the_rule(spark: "SparkSession") -> None:
    cases = {
        b'{"price": 1, "at": "2026-11-17T10:00:00Z"}': "/id is missing",
        b'{"id": "1", "price": 1, "at": "2026-11-17T10:00:00Z"}': "/id is not a whole number",
        b'{"id": -1, "price": 1, "at": "2026-11-17T10:00:00Z"}': "/id is out of range",
        b'{"id": 1, "price": 1, "at": "yesterday"}': "/at is not a time",
        b'{"id": 1, "price": 1, "at": "2026-11-17T10:00:00Z", "address": {}}': "/address/street is missing",
        b"gibberish": "not JSON",
        b"[]": "the message is not an object",
    }
    rows = judged(spark, FLAT, list(cases)).collect()
    assert {bytes(row.value): row._reason for row in rows} == cases
