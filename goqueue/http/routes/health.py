"""What probes ask."""

from typing import Any

from goqueue.http.routing.answers import json_response
from goqueue.http.routing.route import HttpCall, Model, Route
from goqueue.http.server.exchange import Response

GROUP = "Health"


class HealthAnswer(Model):
    status: str


async def healthz(_: HttpCall[Any, Any]) -> Response:
    """The event loop answers."""
    return json_response({"status": "ok"})


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
)
