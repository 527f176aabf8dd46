"""Which tables can become messages: all faults are told at once, by the names of the columns."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from goqueue.errors import InvalidConfig
from goqueue.spark.schema import HEADERS_TYPE
from goqueue.spark.sink.columns import check_columns

BINARY, STRING, INT, DOUBLE = BinaryType(), StringType(), IntegerType(), DoubleType()
Columns = list[tuple[str, DataType]]


def table(columns: Columns) -> StructType:
    made = StructType()
    for name, kind in columns:
        made = made.add(name, kind)
    return made


def faults_of(columns: Columns, *, topic_is_given: bool = True) -> list[str]:
    with pytest.raises(InvalidConfig) as refused:
        check_columns(table(columns), topic_is_given=topic_is_given)
    faults = list(refused.value.details["faults"])
    assert all(fault in refused.value.message for fault in faults)
    return faults


@pytest.mark.parametrize(
    "columns",
    [
        [("value", STRING), ("key", STRING)],
        [("value", BINARY), ("key", BINARY), ("headers", HEADERS_TYPE), ("priority", INT), ("delay", DOUBLE)],
        [("value", BINARY), ("headers", MapType(STRING, BINARY)), ("priority", STRING), ("partition", LongType())],
        [("value", BINARY), ("delay", DecimalType(10, 3)), ("deliver_at", TimestampType())],
        [("value", BINARY), ("delay", INT), ("topic", STRING)],
    ],
)
def test_a_table_may_have_these_columns(columns: Columns) -> None:
    check_columns(table(columns), topic_is_given=True)


def test_a_topic_is_named_by_the_option_or_by_each_row() -> None:
    check_columns(table([("value", BINARY), ("topic", STRING)]), topic_is_given=False)
    [fault] = faults_of([("value", BINARY)], topic_is_given=False)
    assert "give the option topic, or a column of this name" in fault


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        ("value", INT, "value is int; it must be binary or string"),
        ("key", DOUBLE, "key is double; it must be binary or string"),
        ("priority", DOUBLE, "priority is double; it must be a whole number or string"),
        ("delay", STRING, "delay is string; it must be a number of seconds"),
        ("deliver_at", TimestampNTZType(), "deliver_at is timestamp_ntz; it must be timestamp"),
        ("partition", STRING, "partition is string; it must be a whole number"),
        ("topic", BINARY, "topic is binary; it must be string"),
        ("headers", STRING, "it must be array<struct<key:string,value:binary>> or map<string,binary>"),
        ("headers", MapType(STRING, INT), "it must be array<struct"),
        ("headers", ArrayType(STRING), "it must be array<struct"),
        ("headers", ArrayType(StructType().add("key", STRING).add("v", BINARY)), "it must be array<struct"),
    ],
)
def test_a_column_of_a_wrong_type_is_named_with_those_it_may_have(name: str, kind: DataType, wanted: str) -> None:
    others: Columns = [] if name == "value" else [("value", BINARY)]
    [fault] = faults_of([*others, (name, kind)])
    assert wanted in fault


def test_all_faults_are_told_at_once() -> None:
    columns: Columns = [
        ("valeu", BINARY),
        ("offset", LongType()),
        ("key", INT),
        ("key", BINARY),
        ("colour", STRING),
    ]
    assert faults_of(columns) == [
        "there is no column valeu; did you mean value?",
        'offset is given by the broker and cannot be written; leave it out, as by drop("offset")',
        "key is int; it must be binary or string",
        "there is no column colour; there are value, key, headers, priority, delay, deliver_at, partition, topic",
        "there are two columns key",
        "there is no column value",
    ]
