"""Scrapes of a broker in memory, parsed by Prometheus' own client library."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from goqueue.http.metrics.text import OPENMETRICS_TYPE
from goqueue.testing.memory import HOST
from goqueue.testing.network import SimulatedNetwork
from tests.http.world import HTTP_PORT, HttpClient


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Scrape:
    samples: tuple[Sample, ...]
    types: Mapping[str, str]
    """By the names of families, as the format has them."""
    text: str

    def value(self, name: str, **labels: str) -> float:
        """Of the one series with this name and these labels."""
        [found] = self.of(name, **labels)
        return found.value

    def of(self, name: str, **labels: str) -> list[Sample]:
        return list(self._matching(f"goqueue_{name}", labels))

    def total(self, name: str, **labels: str) -> float:
        return sum(each.value for each in self.of(name, **labels))

    def _matching(self, name: str, labels: Mapping[str, str]) -> Iterator[Sample]:
        for each in self.samples:
            if each.name == name and labels.items() <= each.labels.items():
                yield each


async def scrape(network: SimulatedNetwork, *, openmetrics: bool = False) -> Scrape:
    accept = f"{OPENMETRICS_TYPE};version=1.0.0" if openmetrics else "text/plain"
    async with await network.machine("prometheus").connect(HOST, HTTP_PORT) as stream:
        answered = await HttpClient(stream).ask("GET", "/metrics", headers={"accept": accept})
    assert answered.status == 200, answered.body
    assert answered.headers["content-type"].startswith(accept.partition(";")[0])
    return parsed(answered.body.decode(), openmetrics=openmetrics)


def parsed(text: str, *, openmetrics: bool = False) -> Scrape:
    families = list((parse_openmetrics if openmetrics else parse_prometheus)(text))
    samples = tuple(Sample(each.name, each.labels, each.value) for family in families for each in family.samples)
    return Scrape(samples, {family.name: family.type for family in families}, text)
