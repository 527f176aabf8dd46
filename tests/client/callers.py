"""A client that answers nothing: what a part of a client needs of it, for tests to fill in."""

from collections.abc import Awaitable, Callable
from typing import Any

from goqueue.client.link.caller import Sending
from goqueue.client.link.link import Link
from goqueue.client.link.topics import Topic
from goqueue.environment import SystemClock, WallClock


class BareCaller:
    name = "tests"
    link: Link | None = None
    clock: WallClock = SystemClock()
    why_away = "there is no broker in this test"

    def __init__(self) -> None:
        self.senders: dict[Sending, None] = {}

    async def call(self, request: Any, kind: type[Any]) -> Any:
        raise AssertionError(f"nobody expected {request}")

    async def topic(self, name: str) -> Topic:
        raise AssertionError(f"nobody expected a question about {name}")

    def spawn(self, task: Callable[..., Awaitable[object]], *arguments: object) -> None:
        raise AssertionError("nobody expected a task")
