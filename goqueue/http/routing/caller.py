"""The calls of one HTTP request, for what the client library and the gateway have in common."""

from typing import TypeVar

from goqueue.client.link.topics import Topic, only_topic
from goqueue.environment import WallClock
from goqueue.http.routing.topics import Ask
from goqueue.net.wire.kinds import Answer, Request
from goqueue.net.wire.messages import DescribeTopics, Topics

AnswerT = TypeVar("AnswerT", bound=Answer)


class RequestCaller:
    def __init__(self, ask: Ask, clock: WallClock) -> None:
        self.clock = clock
        self._ask = ask

    async def call(self, request: Request, kind: type[AnswerT]) -> AnswerT:
        answer = await self._ask(request)
        assert isinstance(answer, kind), f"{type(request).__name__} was answered with {type(answer).__name__}"
        return answer

    async def topic(self, name: str) -> Topic:
        return only_topic(await self.call(DescribeTopics((name,)), Topics))
