"""What a query may say to the source and the sink, and what it hears when it says something else."""

import json
from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import InvalidConfig
from goqueue.spark.options import (
    EARLIEST,
    LATEST,
    SINK,
    SOURCE,
    Bound,
    SinkOptions,
    SourceOptions,
    column_options,
    sink_options,
    source_options,
)

URL = "ws://127.0.0.1:7710"


def batch(**options: str) -> SourceOptions:
    return source_options({"url": URL, "subscribe": "orders"} | options, streaming=False)


def stream(**options: str) -> SourceOptions:
    return source_options({"url": URL, "subscribe": "orders"} | options, streaming=True)


def reading(options: Mapping[str, str]) -> SourceOptions:
    return source_options({"url": URL} | dict(options), streaming=False)


def sink(*, streaming: bool = False, **options: str) -> SinkOptions:
    return sink_options({"url": URL} | options, streaming=streaming)


# Which topics


def test_topics_are_named_by_a_list_a_pattern_or_their_partitions() -> None:
    assert reading({"subscribe": "orders, payments,orders"}).subscribe == ("orders", "payments")
    assert reading({"subscribePattern": "orders-.*"}).pattern == "orders-.*"
    assert reading({"assign": '{"orders": [2, 0, 2]}'}).assign == {"orders": (0, 2)}
    assert reading({"subscribe": "orders.dlq"}).subscribe == ("orders.dlq",)


@pytest.mark.parametrize(
    ("options", "is_there"),
    [
        ({"subscribe": "orders.dlq,bills.dlq"}, True),
        ({"subscribe": "orders.dlq,bills"}, False),
        ({"assign": '{"orders.dlq": [0]}'}, True),
        ({"subscribePattern": r".*\.dlq"}, True),
        ({"subscribePattern": r"orders|.*\.dlq"}, False),
        ({"subscribePattern": ".*dlq"}, False),
        ({"subscribePattern": ".*dlq", "includeOrigin": "true"}, True),
        ({"subscribePattern": r".*\.dlq", "includeOrigin": "false"}, False),
    ],
)
def test_dead_letters_say_where_they_come_from_where_nothing_else_is_read(
    options: Mapping[str, str], is_there: bool
) -> None:
    assert column_options(options).include_origin is is_there
    assert reading(options).include_origin is is_there


@pytest.mark.parametrize(
    "options", [{}, {"subscribe": "orders", "assign": '{"orders": [0]}'}, {"assign": "{}", "subscribePattern": "x"}]
)
def test_topics_are_named_in_exactly_one_way(options: Mapping[str, str]) -> None:
    with pytest.raises(InvalidConfig, match="give one of subscribe, subscribePattern, assign"):
        reading(options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "orders,"}, "subscribe: a topic name is not empty"),
        ({"subscribe": "or ders"}, "characters that names cannot have"),
        ({"subscribePattern": "(orders"}, r"subscribePattern: '\(orders' is not a regular expression"),
        ({"assign": "orders"}, r"assign: 'orders' is not JSON like"),
        ({"assign": '{"orders": 0}'}, "assign: 0 is not a list of partitions"),
        ({"assign": '{"orders": [-1]}'}, "assign: -1 is not the number of a partition"),
        ({"assign": '{"orders": [true]}'}, "assign: true is not the number of a partition"),
        ({"assign": '{"orders": [0], "orders": [1]}'}, "assign: a name stands twice"),
    ],
)
def test_topics_that_cannot_be_are_refused(options: Mapping[str, str], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        reading(options)


# From where to where


def test_a_batch_reads_all_and_a_stream_what_comes() -> None:
    assert (batch().start, batch().end) == (Bound(EARLIEST), Bound(LATEST))
    assert stream().start == Bound(LATEST)
    assert stream(startingoffsets="Earliest").start == Bound(EARLIEST)


partitions_of_topics = st.dictionaries(
    st.sampled_from(["orders", "payments", "a.b-c_d"]),
    st.dictionaries(st.integers(0, 999), st.integers(-2, 2**63 - 1), min_size=1),
    min_size=1,
)


@given(partitions_of_topics)
def test_offsets_given_as_json_come_back(offsets: dict[str, dict[int, int]]) -> None:
    start = stream(startingoffsets=json.dumps(offsets)).start
    assert start.offsets == offsets
    for topic, by_partition in offsets.items():
        for partition, offset in by_partition.items():
            assert start.of(topic, partition) == offset
        assert start.of(topic, 1_000) is None
    assert start.of("unnamed", 0) is None


def test_a_pattern_of_which_python_warns_is_taken_or_refused_as_any_other() -> None:
    assert source_options({"url": URL, "subscribePattern": "[[a]x"}, streaming=True).pattern == "[[a]x"
    with pytest.raises(InvalidConfig, match="not a regular expression"):
        source_options({"url": URL, "subscribePattern": "[["}, streaming=True)


@given(st.text())
def test_any_text_is_read_or_refused_in_one_way(text: str) -> None:
    for name in SOURCE:
        with suppress(InvalidConfig):
            source_options({"url": URL, name: text}, streaming=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("first", "'first' is neither earliest nor latest nor JSON like"),
        ("", "'' is neither"),
        ('{"orders": {"0": 5}', "is not JSON like"),
        ("{}", "is not JSON like"),
        ('{"orders": 5}', "5 does not give offsets by partition"),
        ('{"orders": {}}', "does not give offsets"),
        ('{"orders": {"zero": 5}}', "zero is not the number of a partition"),
        ('{"orders": {"0": "5"}}', '"5" is no offset here'),
        ('{"orders": {"0": true}}', "true is no offset here"),
        ('{"orders": {"0": 1.5}}', "1.5 is no offset here"),
        ('{"orders": {"0": -3}}', r"-3 is no offset here: .* -2 \(earliest\) or -1 \(latest\)"),
        ('{"orders": {"0": 9223372036854775808}}', "no offset here"),
    ],
)
def test_offsets_that_cannot_be_are_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        stream(startingoffsets=text)


def test_a_batch_neither_begins_at_the_end_nor_ends_at_the_beginning() -> None:
    for text in ("latest", '{"orders": {"0": -1}}'):
        with pytest.raises(InvalidConfig, match="startingOffsets"):
            batch(startingoffsets=text)
    for text in ("earliest", '{"orders": {"0": -2}}'):
        with pytest.raises(InvalidConfig, match="endingOffsets"):
            batch(endingoffsets=text)
    assert batch(endingoffsets='{"orders": {"0": -1, "1": 7}}').end.of("orders", 1) == 7


def test_a_time_counts_before_offsets() -> None:
    start = batch(startingtimestamp="1700000000000", startingoffsets='{"orders": {"0": 5}}').start
    assert start.timestamp_ms == 1_700_000_000_000
    assert start.of("orders", 0) is None
    assert batch(endingtimestamp="0").end.timestamp_ms == 0


def test_what_is_for_streams_or_batches_alone_is_refused_elsewhere() -> None:
    for name in ("endingoffsets", "endingtimestamp"):
        with pytest.raises(InvalidConfig, match="a stream has no end"):
            stream(**{name: "latest"})
    for name in ("maxoffsetspertrigger", "group"):
        with pytest.raises(InvalidConfig, match="a batch has no triggers"):
            batch(**{name: "5"})


# The others


def test_numbers_and_truths_are_read() -> None:
    made = stream(
        maxoffsetspertrigger="1000", minpartitions=" 8 ", failondataloss="FALSE", includeheaders="true", group="etl"
    )
    assert (made.max_offsets_per_trigger, made.min_partitions, made.group) == (1_000, 8, "etl")
    assert (made.fail_on_data_loss, made.include_headers) == (False, True)
    assert (stream().fail_on_data_loss, stream().include_headers) == (True, False)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "", "1e3", "99999999999999999999", "٣"])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"minPartitions: .* is not a whole number of 1 or more"):
        batch(minpartitions=text)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InvalidConfig) as refused:
        source_options({"minpartitions": "none", "failondataloss": "maybe"}, streaming=False)
    assert len(refused.value.details["faults"]) == 4
    for word in ("url is missing", "minPartitions", "failOnDataLoss", "subscribe"):
        assert word in refused.value.message


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("startingoffset", "startingOffsets"),
        ("suscribe", "subscribe"),
        ("kafka.bootstrap.servers", "url"),
        ("path", "subscribe"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_that_is_known(name: str, meant: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"no option {name}; did you mean {meant}"):
        batch(**{name: "x"})


def test_an_unknown_option_does_not_hide_what_else_is_wrong() -> None:
    with pytest.raises(InvalidConfig) as refused:
        reading({"subscribe": "orders", "startingOfsets": "earliest", "minPartitions": "0", "kafka.acks": "1"})
    faults = refused.value.details["faults"]
    assert [fault.partition(";")[0].partition(":")[0] for fault in faults] == [
        "there is no option startingofsets",
        "there is no option kafka.acks",
        "minPartitions",
    ]


def test_an_option_like_no_other_is_refused_with_all_that_are_known() -> None:
    with pytest.raises(InvalidConfig, match=f"no option zzz; there are {', '.join(SINK)}"):
        sink(zzz="1")


@pytest.mark.parametrize("url", ["127.0.0.1:7710", "http://127.0.0.1", "ws://", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match=r"url: .* is not an address like"):
        batch(url=url)


def test_the_columns_are_decided_by_one_option() -> None:
    assert column_options({"includeHeaders": "true"}) == (True, False, None)
    with pytest.raises(InvalidConfig, match="includeHeaders: 'yes' is neither true nor false"):
        column_options({"includeheaders": "yes"})


# The sink


def test_a_sink_takes_its_topic_from_the_option_or_the_rows() -> None:
    assert sink(topic="orders").topic == "orders"
    assert sink().topic is None
    assert sink(checkpointlocation="/tmp/x", queryname="etl", streaming=True).application is None
    with pytest.raises(InvalidConfig, match=r"topic: .*the broker's"):
        sink(topic="__metadata")


def test_a_batch_write_has_an_application_and_a_number_or_neither() -> None:
    made = sink(application="etl", batchid="0")
    assert (made.application, made.batch_id) == ("etl", 0)
    for name in ("application", "batchid"):
        with pytest.raises(InvalidConfig, match="application and batchId go together"):
            sink_options({"url": URL, name: "7"}, streaming=False)


def test_a_streaming_write_is_numbered_by_spark() -> None:
    assert sink(streaming=True, application="etl").application == "etl"
    with pytest.raises(InvalidConfig, match="Spark numbers the batches"):
        sink(streaming=True, batchid="7")
