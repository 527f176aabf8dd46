"""Registers schemas, one after the other, beside the turns of the registry's owner.

A schema is read, checked and compared in slices, which may take two seconds. Meanwhile other changes go on; so the
registration is decided anew after it, and compared once more if the versions to compare with are others.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from goqueue.actors.registry.board import SchemaBoard
from goqueue.actors.registry.requests import Register, Registered
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.restarts import never_restarts
from goqueue.core.schemas.comparing import comparing, incompatible
from goqueue.core.schemas.registering import Registration, Wish, register
from goqueue.core.schemas.schema import SchemaVersion
from goqueue.core.schemas.subjects import check_subject_name
from goqueue.environment import WallClock
from goqueue.errors import GoQueueError, Unavailable
from goqueue.storage.directory.storedschemas import StoredSchemas

ResultT = TypeVar("ResultT")

WAITING_MAX = 1_000
"""Limit of the registrations that wait for their turn."""


class Registrations:
    """A part of the registry's owner. `commit` makes durable and shows what was written."""

    def __init__(
        self, stored: StoredSchemas, board: SchemaBoard, clock: WallClock, commit: Callable[[], Awaitable[None]]
    ) -> None:
        self._stored = stored
        self._board = board
        self._clock = clock
        self._commit = commit
        self._waiting: deque[tuple[Register, Reply[Registered]]] = deque()
        self._has_changed = trio.Event()
        self._is_stopping = False
        self._check = trio.CancelScope()
        """The check that is under way."""

    @defers(Register)
    async def register(self, message: Register, reply: Reply[Registered]) -> None:
        if self._is_stopping:
            raise _is_stopping()
        if len(self._waiting) >= WAITING_MAX:
            raise Unavailable(f"{WAITING_MAX:,} schemas wait to be registered; try again later")
        self._waiting.append((message, reply))
        self._has_changed.set()

    def stop(self) -> None:
        """What is being checked is given up; what is being written is finished."""
        self._is_stopping = True
        self._check.cancel()
        self._has_changed.set()

    async def run(self) -> None:
        """Until `stop`."""
        while not self._is_stopping:
            await self._has_changed.wait()
            self._has_changed = trio.Event()
            while self._waiting:
                await self._answer(*self._waiting.popleft())

    async def _answer(self, message: Register, reply: Reply[Registered]) -> None:
        if not reply.wanted:
            return
        try:
            answer = await self._registered(message)
        except GoQueueError as error:
            if never_restarts(error):
                raise
            self._board.results[error.code] += 1
            reply.fail(error)
        else:
            self._board.results["new" if answer.is_new else "existing"] += 1
            reply.resolve(answer)

    async def _registered(self, message: Register) -> Registered:
        check_subject_name(message.subject)
        content = await self._unless_stopping(partial(self._board.read, message.schema))
        wish = Wish(message.subject, content, message.normalize, message.force, message.id, message.version)
        checked: Registration | None = None
        while True:
            found = await self._decided(wish, checked)
            if isinstance(found, Registered):
                await self._commit()
                return found
            is_valid = checked is not None or found.is_checked
            await self._unless_stopping(partial(self._check_all, wish, found, is_valid=is_valid))
            checked = found

    async def _decided(self, wish: Wish, checked: Registration | None) -> Registered | Registration:
        """The version that has the schema, or what is to be checked before."""
        async with self._stored.changing():
            found = register(self._stored.registry, wish)
            if isinstance(found, SchemaVersion):
                return Registered(found, is_new=False)
            if checked is None or checked.comparisons != found.comparisons:
                return found
            await self._stored.write(found.entry, self._clock.now())
            made = self._stored.registry.version(found.entry["subject"], found.entry["version"])
            return Registered(made, is_new=True)

    async def _check_all(self, wish: Wish, found: Registration, *, is_valid: bool) -> None:
        work, rules = self._board.work, self._board.rules
        if not is_valid:
            await work.run(rules.checking(found.resolved))
        findings = await work.run(comparing(rules, found.resolved, found.comparisons, all_versions=False))
        if findings:
            level = self._stored.registry.settings(wish.subject).level.value
            raise incompatible(wish.subject, level, findings)

    async def _unless_stopping(self, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        with trio.CancelScope() as self._check:
            if not self._is_stopping:
                return await work()
        raise _is_stopping()


def _is_stopping() -> Unavailable:
    return Unavailable("the broker is stopping; try again when it is back")
