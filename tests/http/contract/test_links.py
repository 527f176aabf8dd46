"""The links of the document lead where they say: each is followed, from an answer to the next request."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from trio.testing import MockClock

import goqueue
from goqueue.http.routes.links import LINKS
from goqueue.http.routing.route import RouteLink
from tests.http.world import Answered, HttpClient, connected

GIVEN: Mapping[str, Any] = {"topic": "orders", "group": "billing", "subject": "payments"}
"""What the parameters of the first request's path are, and of the second's where its link says nothing."""
SECONDS_FROM_NOW = 3_600
BODIES: Mapping[str, Any] = {
    "POST /topics": {"name": "orders", "partitions": 1},
    "POST /subjects/{subject}/versions": {"schema": '{"type": "object"}', "schemaType": "JSON"},
    "PATCH /topics/{topic}": {"partitions": 2},
    "POST /topics/{topic}/messages": {"messages": [{"value": "v", "delay": SECONDS_FROM_NOW}]},
    "PATCH /groups/{group}": {"settings": {"max_deliveries": 5}, "force": True},
    "POST /messages/visibility": {"seconds": 60},
}
"""What a link leaves to the client."""


@asynccontextmanager
async def world() -> AsyncIterator[HttpClient]:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        yield http


async def first(http: HttpClient, link: RouteLink) -> Answered:
    """The answer that has the link, after what has to be before."""
    source = link.source
    if source != "POST /topics":
        await http.ask("POST", "/topics", BODIES["POST /topics"])
    if source == "POST /topics/{topic}/messages" and "/delayed" not in link.target:
        return await http.ask("POST", "/topics/orders/messages", {"messages": [{"value": "v"}]})
    if source in BODIES:
        return await http.ask("POST", filled(source, GIVEN), BODIES[source])
    await http.ask("POST", "/topics/orders/messages", {"messages": [{"value": "v"}]})
    joined = await http.ask("POST", "/groups/billing/join", {"topics": ["orders"], "member_id": "m"})
    if source == "POST /groups/{group}/join":
        return joined
    return await http.ask("GET", "/groups/billing/poll?member_id=m&timeout=1")


def filled(route: str, values: Mapping[str, Any]) -> str:
    """The target of a request. What is no part of the path is in the query."""
    _, path = route.split(" ")
    query = {name: value for name, value in values.items() if f"{{{name}}}" not in path and name not in GIVEN}
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
    return f"{path}?{urlencode(query)}" if query else path


def evaluated(expression: Any, answer: Any) -> Any:
    """What an expression of a link picks."""
    if isinstance(expression, dict):
        return {name: evaluated(each, answer) for name, each in expression.items()}
    if isinstance(expression, list):
        return [evaluated(each, answer) for each in expression]
    if not isinstance(expression, str) or not expression.startswith("$"):
        return expression
    where, _, place = expression.partition("#" if "#" in expression else "path.")
    if where == "$request.":
        return GIVEN[place]
    for step in place.strip("/").split("/"):
        answer = answer[int(step)] if isinstance(answer, list) else answer[step]
    return answer


@pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{link.source} → {link.target}")
async def test_a_link_leads_on(link: RouteLink, autojump_clock: MockClock) -> None:
    async with world() as http:
        answer = (await first(http, link)).json()
        values = {**GIVEN, **evaluated(link.parameters, answer)}
        body = {**BODIES.get(link.target, {}), **(evaluated(link.body, answer) or {})}
        method, _ = link.target.split(" ")
        followed = await http.ask(method, filled(link.target, values), body or None)
        assert followed.status < 300, followed.body
