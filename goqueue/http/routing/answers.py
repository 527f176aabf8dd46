"""Answers in JSON."""

from typing import Any

import orjson

from goqueue.http.server.exchange import Response
from goqueue.types import Scalar

NOTHING = Response(204)
RETRY_AFTER = {429: "1", 503: "1"}
"""Seconds until the client may try again."""


def json_response(value: Any, status: int = 200) -> Response:
    return Response(status, orjson.dumps(value, default=_text), headers=retry_headers(status))


def retry_headers(status: int) -> dict[str, str]:
    return {"retry-after": RETRY_AFTER[status]} if status in RETRY_AFTER else {}


def plain(value: Scalar) -> Any:
    """Settings and counters as JSON has them: bytes are text where they can be."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
