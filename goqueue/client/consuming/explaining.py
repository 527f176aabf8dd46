"""A consumer that is connected, waits, and gets nothing says why in its log, by asking the broker.

First after 30 seconds of waiting, then at growing intervals, until messages come. A background task asks, with a
short time limit, and apart from the limit of receives; its errors are ignored.

A member without a partition, since there are more members than partitions, is told so once, within seconds.

The broker does not know which partitions the program has paused. They are logged, too, and if all are paused, that
is the answer.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

import trio

from goqueue.client.consuming.membership import Membership
from goqueue.client.link.caller import Caller
from goqueue.core.waiting.idle import IdleTime
from goqueue.core.why.words import listed
from goqueue.errors import GoQueueError
from goqueue.net.wire.groups import Because, Why

logger = logging.getLogger("goqueue.client")

LOOK_SECONDS = 1.0
"""Minimum time between two looks."""
ANSWER_SECONDS_MAX = 5.0
LEFT_OUT_SECONDS = 5.0
"""The time between two looks for a member that has no partition. Before, members may still come and go."""
LEFT_OUT = "no_partition"
CURE_OF_QUEUES = "make the group shared (shared=True, `goqueue group alter`), or add partitions to the topic"
CURE_OF_STREAMS = "add partitions to the topic, or run fewer consumers"
ORDINARY = frozenset({"nothing_left", "delayed", "delivering", "about_to_deliver", "uncommitted"})
"""Reasons that are no reason to worry."""
OF_A_PAUSE = frozenset({"not_asking", "busy"})
"""The broker's reasons when the program has paused partitions."""

AnswerT = TypeVar("AnswerT")


class Paused(NamedTuple):
    """The partitions that a program has paused, and the number of all that it has."""

    names: tuple[str, ...] = ()
    of: int = 0

    @property
    def is_all(self) -> bool:
        return 0 < len(self.names) == self.of

    def __str__(self) -> str:
        return f"this consumer has paused {listed(self.names)} itself"


class Explaining:
    def __init__(
        self,
        client: Caller,
        group: str,
        member: str,
        spell: IdleTime,
        *,
        paused: Callable[[], Paused] = Paused,
    ) -> None:
        self._client = client
        self._question = Why(group, member)
        self._spell = spell
        self._paused = paused
        self._was_left_out = False

    async def run(self) -> None:
        """Sleeps at least until the waiting time could be over."""
        while True:
            left = self._spell.left(trio.current_time())
            if left <= 0 and self._spell.is_waiting and self._client.link is not None:
                await self._say()
            else:
                await trio.sleep(max(left, LOOK_SECONDS))

    async def tell_left_out(self, membership: Membership) -> None:
        """Warn once when the member has no partition. The broker is asked once in each generation."""
        asked = None
        while not self._was_left_out:
            await trio.sleep(LEFT_OUT_SECONDS)
            is_without = membership.is_member and not membership.assignment
            if is_without and membership.generation != asked:
                asked = membership.generation
                await self._tell_if_left_out(membership)

    async def _tell_if_left_out(self, membership: Membership) -> None:
        with trio.move_on_after(ANSWER_SECONDS_MAX), suppress(GoQueueError):
            answer = await self._client.call(self._question, Because)
            if answer.facts.get("reason") == LEFT_OUT and not self._was_left_out:
                self._was_left_out = True
                cure = CURE_OF_STREAMS if membership.is_stream else CURE_OF_QUEUES
                logger.warning("group %s: %s; %s", self._question.group, answer.why, cure)

    async def _say(self) -> None:
        waited, paused = self._spell.waited(trio.current_time()), self._paused()
        self._spell.said()
        if paused.is_all:
            self._log(logging.INFO, waited, f"{paused}, all that it has")
            return
        try:
            with trio.move_on_after(ANSWER_SECONDS_MAX):
                answer = await self._client.call(self._question, Because)
                aside = f"; {paused}" if paused.names else ""
                self._log(self._level(answer, paused), waited, answer.why + aside)
        except GoQueueError as error:
            logger.debug("group %s: why nothing comes is not known: %s", self._question.group, error.message)

    def _level(self, answer: Because, paused: Paused) -> int:
        """What was told before is no warning any more."""
        reason = answer.facts.get("reason")
        is_ordinary = reason in ORDINARY or (bool(paused.names) and reason in OF_A_PAUSE)
        was_told, self._was_left_out = self._was_left_out, self._was_left_out or reason == LEFT_OUT
        return logging.INFO if is_ordinary or (was_told and reason == LEFT_OUT) else logging.WARNING

    def _log(self, level: int, waited: float, why: str) -> None:
        logger.log(level, "group %s: nothing came for %.0f s: %s", self._question.group, waited, why)
