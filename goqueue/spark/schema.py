"""The columns of a topic: those of Spark's Kafka connector, and a message's priority.

| column | type | |
|---|---|---|
| key | binary | null where the message has none |
| value | binary | null in a tombstone |
| topic | string | |
| partition | int | |
| offset | long | |
| timestamp | timestamp | when it was published: the time that `message.timestamp` gives, in microseconds |
| priority | int | 0 (critical) to 4 (background), as `goqueue.Priority`: it sorts by urgency |
| headers | array<struct<key: string, value: binary>> | with `includeHeaders`; an empty array where there are none |

A dead letter says where it comes from, with `includeOrigin`, or where nothing but dead-letter topics is named:

| column | type | null in a message that a program has put there |
|---|---|---|
| origin_topic | string | |
| origin_partition | int | |
| origin_offset | long | |
| origin_group | string | the group that gave it up |
| attempts | int | how often it was handed out |
| first_delivery | timestamp | |
| last_delivery | timestamp | |
| reason | string | |

Kafka's `timestampType` is not there: a goqueue message has one time.
"""

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.spark.json.columns import type_of
from goqueue.spark.json.types import JsonObject, record_of

if TYPE_CHECKING:
    import pyarrow as pa

KEY, VALUE, TOPIC, PARTITION, OFFSET = "key", "value", "topic", "partition", "offset"
TIMESTAMP, PRIORITY, HEADERS = "timestamp", "priority", "headers"
ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET = "origin_topic", "origin_partition", "origin_offset"
ORIGIN_GROUP, ATTEMPTS, REASON = "origin_group", "attempts", "reason"
FIRST_DELIVERY, LAST_DELIVERY = "first_delivery", "last_delivery"
DELAY, DELIVER_AT = "delay", "deliver_at"
"""Columns of a sink's rows only, besides most of those above."""
KNOWN = "_goqueue_known"
"""The values of a message that is known to fit the JSON Schema of an ingest; null if that is not known."""

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


ORIGIN = (
    StructField(ORIGIN_TOPIC, StringType()),
    StructField(ORIGIN_PARTITION, IntegerType()),
    StructField(ORIGIN_OFFSET, LongType()),
    StructField(ORIGIN_GROUP, StringType()),
    StructField(ATTEMPTS, IntegerType()),
    StructField(FIRST_DELIVERY, TimestampType()),
    StructField(LAST_DELIVERY, TimestampType()),
    StructField(REASON, StringType()),
)


def source_schema(
    *, include_headers: bool, include_origin: bool = False, json_schema: str | None = None
) -> StructType:
    columns = [
        StructField(KEY, BinaryType()),
        StructField(VALUE, BinaryType()),
        StructField(TOPIC, StringType()),
        StructField(PARTITION, IntegerType()),
        StructField(OFFSET, LongType()),
        StructField(TIMESTAMP, TimestampType()),
        StructField(PRIORITY, IntegerType()),
    ]
    if include_headers:
        columns.append(StructField(HEADERS, HEADERS_TYPE))
    columns += ORIGIN if include_origin else ()
    if json_schema is not None:
        columns.append(StructField(KNOWN, type_of(record_from(json_schema))))
    return StructType(columns)


@lru_cache(8)
def record_from(json_schema: str) -> JsonObject:
    return record_of(json.loads(json_schema))


def arrow_schema(schema: StructType) -> "pa.Schema":
    """The schema that Spark compares each record batch with: types, names, order and nullability must be equal."""
    return to_arrow_schema(schema, timezone="UTC")
