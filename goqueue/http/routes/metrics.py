"""What Prometheus scrapes."""

from typing import Any

from goqueue.http.metrics.text import Format, format_for
from goqueue.http.routing.route import HttpCall, Route
from goqueue.http.server.exchange import Response

GROUP = "Statistics"


async def metrics(call: HttpCall[Any, Any]) -> Response:
    """This node's own, whoever leads. They are read from boards, so there is no request of the wire for them."""
    form = format_for(call.exchange.head.values(b"accept"))
    return Response(body=await call.gateway.metrics.text(form), content_type=form.value)


ROUTES = (
    Route(
        "GET",
        "/metrics",
        metrics,
        "Show the broker's metrics, for Prometheus.",
        GROUP,
        gives=tuple(form.value for form in Format),
        example="$URL/metrics",
    ),
)
