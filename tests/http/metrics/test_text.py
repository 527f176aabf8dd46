"""The text that Prometheus reads: both formats, and which one a client gets."""

import pytest

from goqueue.core.histogram import Histogram
from goqueue.http.metrics import families as f
from goqueue.http.metrics.samples import BOUNDS, Samples, label
from goqueue.http.metrics.text import Format, format_for, written
from goqueue.storage.slices import Slices
from tests.http.metrics.scraping import Sample, Scrape, parsed

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


async def read(samples: Samples, form: Format) -> Scrape:
    text = (await written(samples, form, Slices())).decode()
    return parsed(text, openmetrics=form is Format.OPENMETRICS)


@pytest.mark.parametrize("form", Format)
async def test_a_counter_a_gauge_and_a_histogram_are_read_as_they_were_written(form: Format) -> None:
    samples, times = Samples(1_000), Histogram()
    for seconds in (0.000_001, 0.02, 0.02, 1_000_000):
        times.add(seconds)
    samples.put(f.PUBLISHED, 7, label("topic", "orders"))
    samples.put(f.DISK_FREE, 2**63)
    samples.put_histogram(f.FSYNC_SECONDS, times)
    found = await read(samples, form)
    suffix = "" if form is Format.OPENMETRICS else "_total"
    assert found.types == {
        f"goqueue_broker_messages_published{suffix}".removesuffix("_total"): "counter",
        "goqueue_storage_disk_free_bytes": "gauge",
        "goqueue_storage_fsync_seconds": "histogram",
    }
    assert found.value("broker_messages_published_total", topic="orders") == 7
    assert found.value("storage_disk_free_bytes") == 2**63
    assert found.value("storage_fsync_seconds_sum") == times.sum
    assert found.value("storage_fsync_seconds_count") == found.value("storage_fsync_seconds_bucket", le="+Inf") == 4
    buckets = [(float(each.labels["le"]), each.value) for each in found.of("storage_fsync_seconds_bucket")]
    assert len(buckets) == len(BOUNDS) + 1
    assert [count for bound, count in buckets if bound < 0.01] == [1] * sum(bound < 0.01 for bound, _ in buckets)
    assert [count for bound, count in buckets if 0.1 < bound < 1_000] == [3] * sum(
        0.1 < b < 1_000 for b, _ in buckets
    )


@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", 'back\\slash"\\n', "{}=,", "ä \N{SNOWMAN}"])
async def test_whatever_is_in_a_label_comes_back(form: Format, value: str) -> None:
    samples = Samples(1_000)
    samples.put(f.PUBLISHED, 1, label("topic", value))
    assert (await read(samples, form)).samples == (
        Sample("goqueue_broker_messages_published_total", {"topic": value}, 1),
    )


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (PROMETHEUS, Format.OPENMETRICS),
        ("text/plain;version=0.0.4", Format.PROMETHEUS),
        ("*/*", Format.PROMETHEUS),
        ("", Format.PROMETHEUS),
        ("application/openmetrics-text", Format.OPENMETRICS),
        ("Application/OpenMetrics-Text; Version=1.0.0; charset=utf-8", Format.OPENMETRICS),
        ("application/openmetrics-text;version=2.0.0", Format.PROMETHEUS),
        ("application/openmetrics-text;q=0.1,text/plain;q=0.9", Format.PROMETHEUS),
        ("application/openmetrics-text;q=rubbish", Format.PROMETHEUS),
        ("application/openmetrics-text;q=0", Format.PROMETHEUS),
    ],
)
def test_a_client_gets_the_format_that_it_likes_better(accept: str, expected: Format) -> None:
    assert format_for([accept.encode()] if accept else []) is expected


async def test_with_too_many_series_partitions_are_summed_by_topic() -> None:
    samples = Samples(10)
    for topic in ("orders", "payments"):
        for number in range(5):
            samples.put_split(f.LOG_BYTES, 10, label("topic", topic), label("partition", number))
    samples.complete()
    found = await read(samples, Format.PROMETHEUS)
    assert [(each.labels, each.value) for each in found.of("storage_log_bytes")] == [
        ({"topic": "orders"}, 50),
        ({"topic": "payments"}, 50),
    ]
    assert found.value("broker_metrics_truncated") == 1


async def test_as_many_series_as_may_be_are_written_apart() -> None:
    samples = Samples(11)
    for number in range(10):
        samples.put_split(f.LOG_BYTES, 10, label("topic", "orders"), label("partition", number))
    samples.complete()
    found = await read(samples, Format.PROMETHEUS)
    assert len(found.of("storage_log_bytes", topic="orders")) == 10
    assert found.value("broker_metrics_truncated") == 0
    assert len(found.samples) == 11
