"""What an error is as an answer: in the one form that all routes have, or in that of Confluent's schema registry.

A client of the registry knows nothing but a number and a sentence. It repeats what is answered with 408, 429 or a
status from 500 on.
"""

import orjson

from goqueue.errors import GoQueueError, RegistryError
from goqueue.http.routing.answers import retry_headers
from goqueue.http.routing.route import REGISTRY
from goqueue.http.server.errors import MethodNotAllowed, WrongServer, status_of
from goqueue.http.server.exchange import Response
from goqueue.net.wire.failures import error_body


def refusal(request_id: str, error: GoQueueError) -> Response:
    """The one form of every error."""
    body = error_body(error)
    told = {
        "code": body.code,
        "message": body.message,
        "retryable": body.retryable,
        "details": {**body.details, **error.details},
        "request_id": request_id,
    }
    status = status_of(error)
    return Response(status, orjson.dumps(told, default=str), headers=_headers(status, error))


def registry_refusal(error: GoQueueError) -> Response:
    status = status_of(error)
    number = error.error_code if isinstance(error, RegistryError) else None
    told = {"error_code": number or status, "message": error.message}
    return Response(status, orjson.dumps(told), REGISTRY, _headers(status, error))


def _headers(status: int, error: GoQueueError) -> dict[str, str]:
    headers = retry_headers(status)
    if isinstance(error, WrongServer):
        headers["goqueue-websocket"] = str(error.details["websocket"])
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = str(error.details["allow"])
    return headers
