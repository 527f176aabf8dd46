"""The broker's counters. The slices are parts of the same counters, by the beginnings of their names."""

from functools import partial
from typing import Any, cast

from pydantic import RootModel

from goqueue.http.routing.answers import json_response, plain
from goqueue.http.routing.route import HttpCall, Route
from goqueue.http.server.exchange import Response
from goqueue.net.wire.messages import Stats, StatsReport

GROUP = "Statistics"
SLICES = {
    "": "",
    "/reliability": "delivered settled dead_letters groups. refused published.repeats restarts damaged",
    "/delay": "delay.",
    "/priority": "lane. delivered.critical delivered.high delivered.normal delivered.low delivered.background",
    "/rebalance": "groups",
    "/schemas": "schemas",
}
"""The paths, and the beginnings of the names that each has."""


async def stats(call: HttpCall[Any, Any], beginnings: tuple[str, ...]) -> Response:
    counters = cast(StatsReport, await call.ask(Stats())).counters
    shown = {name: plain(value) for name, value in counters.items() if name.startswith(beginnings or "")}
    return json_response(shown)


class StatsAnswer(RootModel[dict[str, float | int | str | None]]):
    """Names as `goqueue stats` has them."""


ROUTES = tuple(
    Route(
        "GET",
        f"{path}/stats",
        partial(stats, beginnings=tuple(beginnings.split())),
        "Show the broker's counters." if not path else f"Show the counters of {beginnings.split()[0]} and alike.",
        GROUP,
        answer=StatsAnswer,
        asks=(Stats,),
        example=f"$URL{path}/stats",
    )
    for path, beginnings in SLICES.items()
)
