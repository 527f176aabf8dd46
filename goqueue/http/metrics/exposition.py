"""One scrape: what the boards and counters of this node show at one moment, as text.

No actor is called, so a scrape waits for nobody; a part of the broker that is being started is left out. Scrapes
are made in slices, one after the other, so that many of them hold the memory of one.
"""

import trio

from goqueue.actors.node.broker import Broker
from goqueue.http.metrics import broker as of_broker
from goqueue.http.metrics.groups import GroupsWalk
from goqueue.http.metrics.requests import HttpCounts
from goqueue.http.metrics.samples import Samples
from goqueue.http.metrics.text import Format, written
from goqueue.http.metrics.topics import TopicsWalk
from goqueue.storage.slices import Slices

SERIES_MAX = 50_000
"""The default of `metrics_series_max`."""


class Metrics:
    def __init__(self, broker: Broker, http: HttpCounts, series_max: int = SERIES_MAX) -> None:
        self._broker = broker
        self._http = http
        self._series_max = series_max
        self._turn = trio.Lock()
        self._groups = GroupsWalk(broker)

    async def text(self, form: Format) -> bytes:
        async with self._turn:
            slices = Slices()
            return await written(await self._collected(slices), form, slices)

    async def _collected(self, slices: Slices) -> Samples:
        samples = Samples(self._series_max)
        await of_broker.collect(self._broker, samples, slices)
        of_broker.collect_http(self._http, samples)
        await TopicsWalk(self._broker, samples, slices).collect(self._groups)
        await self._groups.collect(samples, slices)
        samples.complete()
        return samples
