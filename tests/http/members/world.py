"""Members of one group over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import goqueue
from goqueue.testing.memory import Machine
from tests.http.world import Answered, HttpClient, connected

SHORT = "HTTP/1.1\r\nhost: localhost\r\n\r\n"


@asynccontextmanager
async def world(count: int = 10, partitions: int = 1) -> AsyncIterator[tuple[Machine, goqueue.Client, HttpClient]]:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=partitions)
        for number in range(count):
            await client.publish("orders", str(number).encode(), partition=number % partitions)
        yield machine, client, http


async def join(http: HttpClient, member: str = "m", **body: Any) -> dict[str, Any]:
    answer = await http.ask("POST", "/groups/g/join", {"topics": ["orders"], "member_id": member, **body})
    assert answer.status == 200, answer.body
    return dict(answer.json())


def polling(member: str = "m", **query: Any) -> str:
    return f"/groups/g/poll?{urlencode({'member_id': member, **query})}"


async def poll(http: HttpClient, member: str = "m", **query: Any) -> dict[str, Any]:
    answer = await http.ask("GET", polling(member, **query))
    assert answer.status == 200, answer.body
    return dict(answer.json())


async def beat(http: HttpClient, member: str = "m", **body: Any) -> Answered:
    return await http.ask("POST", "/groups/g/heartbeat", {"member_id": member, **body})


async def settle(http: HttpClient, how: str, receipts: list[str], **body: Any) -> Answered:
    return await http.ask("POST", f"/messages/{how}", {"receipts": receipts, **body})


def values(polled: dict[str, Any]) -> list[str]:
    return [message["value"] for message in polled["messages"]]


def receipts(polled: dict[str, Any]) -> list[str]:
    return [message["receipt"] for message in polled["messages"]]
