"""What schemathesis draws is allowed; but ten thousand partitions, a poll of a minute, or a stream take their time.

So what is good and large is made small before it is sent. What is wrong stays as it is.
"""

from typing import Any

import schemathesis
from schemathesis.core import NOT_SET

from goqueue.http.routes.publishing import PublishQuery

PARTITIONS_MAX, PARTITIONS = 10_000, 4
SECONDS_MAX, SECONDS = 60, 0.1
OF_ONE_MESSAGE = set(PublishQuery.model_fields) - {"acks"}
"""Parameters that belong to a body of bytes. A schema of parameters cannot say so."""
TRUE = ("true", "1", "yes", "y", "on", "t")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    body, query = case.body, case.query
    if isinstance(body, dict) and type(count := body.get("partitions")) is int and 1 < count <= PARTITIONS_MAX:
        body["partitions"] = 1 + count % PARTITIONS
    for name in ("timeout", "wait"):
        if isinstance(query, dict) and _is_long(query.get(name)):
            query[name] = SECONDS
    if isinstance(query, dict) and str(query.get("follow")).lower() in TRUE:
        query["follow"] = "false"
    if isinstance(query, dict) and body is not NOT_SET and _is_json(case) and _is_good(case):
        for name in [each for each in query if each in OF_ONE_MESSAGE]:
            del query[name]
    if case.operation.path.endswith("/poll"):
        query.setdefault("timeout", SECONDS)


def _is_json(case: Any) -> bool:
    return bool(case.operation.path.endswith("/messages") and case.media_type == "application/json")


def _is_good(case: Any) -> bool:
    return bool(case.meta is not None and case.meta.generation.mode.is_positive)


def _is_long(seconds: object) -> bool:
    try:
        return SECONDS < float(str(seconds)) <= SECONDS_MAX
    except ValueError:
        return False
