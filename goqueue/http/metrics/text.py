"""Metrics as text: Prometheus' format 0.0.4, and OpenMetrics 1.0, which has other names of counters, and an end.

Written by hand: the client library takes ten times as long, in one step, which would stop the broker meanwhile.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from goqueue.core.histogram import Histogram
from goqueue.http.metrics.families import Family, openmetrics_head
from goqueue.http.metrics.samples import BOUNDS, Sample, Samples
from goqueue.storage.slices import Slices

PROMETHEUS_TYPE, OPENMETRICS_TYPE = "text/plain", "application/openmetrics-text"
PORTION = 1_000
"""Lines that are written in one step of a slice."""


class Format(Enum):
    PROMETHEUS = f"{PROMETHEUS_TYPE}; version=0.0.4; charset=utf-8"
    OPENMETRICS = f"{OPENMETRICS_TYPE}; version=1.0.0; charset=utf-8"


def format_for(accept: Iterable[bytes]) -> Format:
    """The format that a client likes better, by its `Accept`; the older one if it does not say."""
    wishes = [wish for value in accept for wish in value.decode("latin-1").lower().split(",")]
    openmetrics = max((_weight(each) for each in wishes if _is_openmetrics(each)), default=0.0)
    prometheus = max((_weight(each) for each in wishes if _media_type(each) == PROMETHEUS_TYPE), default=0.0)
    return Format.OPENMETRICS if openmetrics > prometheus else Format.PROMETHEUS


def _is_openmetrics(wish: str) -> bool:
    version = _parameter(wish, "version")
    return _media_type(wish) == OPENMETRICS_TYPE and version in (None, "1.0.0")


def _media_type(wish: str) -> str:
    return wish.partition(";")[0].strip()


def _parameter(wish: str, name: str) -> str | None:
    pairs = (each.partition("=") for each in wish.split(";")[1:])
    return next((value.strip() for key, _, value in pairs if key.strip() == name), None)


def _weight(wish: str) -> float:
    try:
        return float(_parameter(wish, "q") or 1.0)
    except ValueError:
        return 0.0


async def written(samples: Samples, form: Format, slices: Slices) -> bytes:
    pieces = []
    for family in samples.families():
        pieces.append(_head(family, form))
        found = samples.of(family)
        for first in range(0, len(found), PORTION):
            pieces.append(_lines(family.name, found[first : first + PORTION]))
            await slices.step()
        for labels, histogram in samples.histograms(family):
            pieces.append("".join(_histogram_lines(family.name, labels, histogram)))
            await slices.step()
    if form is Format.OPENMETRICS:
        pieces.append("# EOF\n")
    return "".join(pieces).encode()


def _head(family: Family, form: Format) -> str:
    name, kind = family.name, family.kind.value
    if form is Format.OPENMETRICS:
        name, kind = openmetrics_head(family)
    return f"# HELP {name} {family.help}\n# TYPE {name} {kind}\n"


def _lines(name: str, samples: Sequence[Sample]) -> str:
    return "".join(
        [f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n" for labels, value in samples]
    )


def _histogram_lines(name: str, labels: str, histogram: Histogram) -> Iterator[str]:
    comma, braces = (f"{labels},", f"{{{labels}}}") if labels else ("", "")
    for bound, count in zip(BOUNDS, histogram.counts_up_to(BOUNDS), strict=True):
        yield f'{name}_bucket{{{comma}le="{Histogram.bounds[bound]:.4g}"}} {count}\n'
    yield f'{name}_bucket{{{comma}le="+Inf"}} {histogram.count}\n'
    yield f"{name}_sum{braces} {histogram.sum}\n"
    yield f"{name}_count{braces} {histogram.count}\n"
