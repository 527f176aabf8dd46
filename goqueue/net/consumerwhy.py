"""A consumer that is connected, waits, and gets nothing says why in its log, by asking the broker.

First after 30 seconds of waiting, then at growing intervals, until something comes. It is asked beside the program
and not for long, on a place that receives do not need; what goes wrong with it is nobody's trouble.
"""

import logging
from typing import Protocol, TypeVar

import trio

from goqueue.core.quietspell import QuietSpell
from goqueue.errors import GoQueueError
from goqueue.net.bodies import Request
from goqueue.net.link import Link
from goqueue.net.whymessages import Because, Why

logger = logging.getLogger("goqueue.client")

LOOK_SECONDS = 1.0
"""Between two looks at the least."""
ANSWER_SECONDS_MAX = 5.0
ORDINARY = frozenset({"nothing_left", "delivering", "about_to_deliver"})
"""Reasons that are no reason to worry."""

AnswerT = TypeVar("AnswerT")


class Caller(Protocol):
    link: Link | None

    async def call(self, request: Request, kind: type[AnswerT]) -> AnswerT: ...


class Explaining:
    def __init__(self, client: Caller, group: str, member: str, spell: QuietSpell) -> None:
        self._client = client
        self._question = Why(group, member)
        self._spell = spell

    async def run(self) -> None:
        """Waiting takes as long as it takes: nobody need look before what is left of it could be over."""
        while True:
            left = self._spell.left(trio.current_time())
            if left <= 0 and self._spell.is_waiting and self._client.link is not None:
                await self._say()
            else:
                await trio.sleep(max(left, LOOK_SECONDS))

    async def _say(self) -> None:
        waited = self._spell.waited(trio.current_time())
        self._spell.said()
        try:
            with trio.move_on_after(ANSWER_SECONDS_MAX):
                answer = await self._client.call(self._question, Because)
                level = logging.INFO if answer.facts.get("reason") in ORDINARY else logging.WARNING
                logger.log(level, "group %s: nothing came for %.0f s: %s", self._question.group, waited, answer.why)
        except GoQueueError as error:
            logger.debug("group %s: why nothing comes is not known: %s", self._question.group, error.message)
