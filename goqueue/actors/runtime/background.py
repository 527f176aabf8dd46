"""The tasks that an actor owns beside its own: an fsync under way, a socket that is read.

They run while the actor handles messages, in the same nursery, so that the crash of one is the crash of the
actor and none outlives it. Every end of one wakes the actor, which may have waited for just that.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVarTuple, Unpack

import trio

from goqueue.actors.runtime.cycles import current_party
from goqueue.actors.runtime.mailbox import Mailbox

Args = TypeVarTuple("Args")


class Background:
    def __init__(self, nursery: trio.Nursery, mailbox: Mailbox) -> None:
        self._nursery = nursery
        self._mailbox = mailbox
        self.unfinished = 0

    def start(
        self, task: Callable[[Unpack[Args]], Awaitable[object]], *args: *Args, endless: bool
    ) -> trio.CancelScope:
        scope = trio.CancelScope()
        self._count(endless, 1)
        self._nursery.start_soon(self._run, scope, task, args, endless)
        return scope

    async def _run(
        self,
        scope: trio.CancelScope,
        task: Callable[[Unpack[Args]], Awaitable[object]],
        args: tuple[*Args],
        endless: bool,
    ) -> None:
        current_party.set(None)
        try:
            with scope:
                await task(*args)
        finally:
            self._count(endless, -1)
            self._mailbox.wake()

    def _count(self, endless: bool, change: int) -> None:
        self._mailbox.party.background_tasks += change
        if not endless:
            self.unfinished += change
