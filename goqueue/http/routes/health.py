"""What probes ask. They call by whatever address they have, so neither Host nor Origin is looked at."""

from typing import Any, Literal, cast

from pydantic import Field

from goqueue.core.health import NOT_READY, READY
from goqueue.errors import Unavailable
from goqueue.http.routing.answers import json_response
from goqueue.http.routing.route import HttpCall, Model, Route
from goqueue.http.server.exchange import Response
from goqueue.net.wire.messages import CheckHealth, HealthReport

GROUP = "Health"
ALIVE = json_response({"status": "ok"})


class HealthAnswer(Model):
    status: str


class ReadinessQuery(Model):
    purpose: Literal["publish"] | None = Field(None, alias="for")
    """`publish`: only a broker that takes publishes is ready."""


class DegradedReason(Model):
    code: str
    message: str
    cure: str


class ReadinessAnswer(Model):
    status: Literal["ready"]
    degraded: list[DegradedReason]
    """What impairs the broker, which serves all the same."""


async def healthz(_: HttpCall[Any, Any]) -> Response:
    """The event loop answers."""
    return ALIVE


async def readyz(call: HttpCall[ReadinessQuery, None]) -> Response:
    for_publish = call.query.purpose == "publish"
    report = cast(HealthReport, await call.ask(CheckHealth(for_publish)))
    degraded = [each._asdict() for each in report.degraded]
    if report.status != READY:
        raise Unavailable(NOT_READY[report.status], status=report.status, degraded=degraded)
    return json_response({"status": report.status, "degraded": degraded})


ROUTES = (
    Route(
        "GET",
        "/healthz",
        healthz,
        "Say that the process answers.",
        GROUP,
        answer=HealthAnswer,
        example="$URL/healthz",
        is_open=True,
    ),
    Route(
        "GET",
        "/readyz",
        readyz,
        "Say whether the broker serves, and what impairs it; 503 while it starts or shuts down.",
        GROUP,
        query=ReadinessQuery,
        answer=ReadinessAnswer,
        asks=(CheckHealth,),
        example="$URL/readyz?for=publish",
        is_open=True,
    ),
)
