"""Messages that do not fit the schema of their consumer: they go to the dead letters, and are never handed out.

They are sorted out when a delivery arrives, before anything is handed out; their bodies are decoded by that.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import trio

from goqueue.client.consuming.delivery import Portion, WithBody, portions_of
from goqueue.client.consuming.reasons import reason_of
from goqueue.client.consuming.settling import SettleOutcome, Word
from goqueue.core.ledger.settlements import Action
from goqueue.errors import GoQueueError, SchemaMisfit

logger = logging.getLogger("goqueue.client")


class Says(Protocol):
    async def say(self, word: Word, portions: Sequence[Portion]) -> SettleOutcome: ...


class Misfits:
    def __init__(self, settling: Says, spawn: Callable[..., object], on_room: Callable[[], None]) -> None:
        """`spawn` runs a task beside the program. `on_room` is told when there is room for other messages."""
        self._settling = settling
        self._spawn = spawn
        self._on_room = on_room
        self._under_way = 0
        self._has_ended = trio.Event()

    def sift(self, messages: Sequence[WithBody]) -> list[Any]:
        """Those that fit. The others are rejected from now on."""
        fitting, misfits = list[Any](), dict[str, list[Any]]()
        for message in messages:
            try:
                message.decode_body()
            except SchemaMisfit as error:
                misfits.setdefault(reason_of(error), []).append(message)
            else:
                fitting.append(message)
        for reason, some in misfits.items():
            self._under_way += 1
            self._spawn(self._reject, reason, some)
        return fitting

    async def _reject(self, reason: str, messages: Sequence[Any]) -> None:
        count, first = len(messages), messages[0]
        place = f"{first.topic}/{first.partition} offset {first.offset}" + (
            f" and {count - 1} more" if count > 1 else ""
        )
        try:
            (await self._settling.say(Word(Action.REJECT, None, reason), portions_of(messages))).check()
            logger.warning("%s: rejected, %s", place, reason)
        except GoQueueError as error:
            logger.warning("%s: cannot be rejected now, and comes again: %s", place, error.message)
        finally:
            self._under_way -= 1
            self._has_ended.set()
            self._on_room()

    async def flush(self) -> None:
        """Wait until every reject is decided."""
        while self._under_way:
            self._has_ended = trio.Event()
            await self._has_ended.wait()
