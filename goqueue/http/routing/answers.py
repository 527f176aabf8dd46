"""Answers in JSON."""

from typing import Any

import orjson

from goqueue.http.server.exchange import Response
from goqueue.types import Scalar

NOTHING = Response(204)


def json_response(value: Any, status: int = 200) -> Response:
    return Response(status, orjson.dumps(value, default=_text))


def plain(value: Scalar) -> Any:
    """Settings and counters as JSON has them: bytes are text where they can be."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
