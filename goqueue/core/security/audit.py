"""The audit: a line for each request that an operator would want to find again. It never holds a payload.

Names come from clients and may hold anything, so a line is JSON: it cannot be made to look like two.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from goqueue.core.security.principals import Principal
from goqueue.core.security.rights import RULES, Permission

DONE = "done"
UNKNOWN = "unknown"
"""The connection ended before the outcome was known. It may have been done."""


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asked, and by which way."""

    principal: Principal
    address: str | None
    session: int
    request_id: str


def is_audited(kind: str, request: Any) -> bool:
    return RULES[kind].is_audited(request)


def line(
    requester: Requester,
    kind: str,
    request: Any,
    outcome: str,
    topic_name: Callable[[bytes], str | None],
) -> str:
    """`topic_name` finds the name of a topic by its UUID."""
    shown = next(RULES[kind].needs(request))
    return json.dumps(
        {
            "principal": requester.principal.name,
            "address": requester.address,
            "session": requester.session,
            "request_id": requester.request_id,
            "request": kind,
            "action": shown.right.value,
            "resource": _text(shown, topic_name),
            **({"force": True} if getattr(request, "force", False) else {}),
            "outcome": outcome,
        }
    )


def _text(permission: Permission, topic_name: Callable[[bytes], str | None]) -> str:
    resource, name = permission.resource.value, permission.name
    if isinstance(name, bytes):
        name = topic_name(name) or name.hex()
    return resource if name is None else f"{resource}:{name}"
