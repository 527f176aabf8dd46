"""The messages between actors: requests, news, and the reply to a request.

A message is frozen data. Its class says what answers it: `class Append(Request[int])` is answered by an int,
so `await ref.call(Append(...))` is an int to the type checker too.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import trio

from goqueue.actors.runtime.cycles import CallWait, Party

ReplyT = TypeVar("ReplyT")
ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Request(Generic[ReplyT_co]):
    """A message that is answered with a `ReplyT_co`; `Request[None]` is answered with "done"."""

    __slots__ = ()


class News:
    """A fact that a newer one of the same sender and class makes worthless: "the end is 4711"."""

    __slots__ = ()


class Reply(CallWait, Generic[ReplyT]):
    """The answer that one caller is owed: settled once, by the actor that was asked or by its death.

    A handler may keep it and settle it later. It belongs to its actor: settle it from the actor's own task or
    from one of its background tasks, never from elsewhere.
    """

    __slots__ = ("_error", "_hear", "_settled", "_task", "_unsettled", "_value", "asker", "wanted")

    def __init__(
        self, target: Party, unsettled: "dict[Reply[Any], None]", *, wanted: bool, asker: Party | None = None
    ) -> None:
        # Without a call of the base class: for every request.
        self.target = target
        self.by_own_task = asker is not None and asker.task is trio.lowlevel.current_task()
        self.deferred = False
        self.asker = asker
        self._unsettled = unsettled
        self.wanted = wanted
        self._settled = False
        self._value: ReplyT | None = None
        self._error: BaseException | None = None
        self._task: trio.lowlevel.Task | None = None
        self._hear: Callable[[Reply[ReplyT]], None] | None = None

    @property
    def settled(self) -> bool:
        return self._settled

    def resolve(self, value: ReplyT) -> bool:
        """Answer. False if nobody wants the answer any more: the caller was cancelled, or it was a cast."""
        return self._settle(value, None)

    def fail(self, error: BaseException) -> bool:
        """Answer with an error that the caller's `call` raises."""
        return self._settle(None, error)

    def _settle(self, value: ReplyT | None, error: BaseException | None) -> bool:
        if self._settled:
            raise RuntimeError("a reply is settled once")
        self._settled, self._value, self._error = True, value, error
        self._unsettled.pop(self, None)
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
        elif self._hear is not None:
            self._hear(self)
        return self.wanted

    def then(self, hear: "Callable[[Reply[ReplyT]], None]") -> None:
        """The caller's side, without a task: `hear` is called when the reply is settled.

        At once if it already is. `hear` neither waits nor raises: the actor's turn goes on behind it.
        """
        if self._settled:
            hear(self)
        else:
            self._hear = hear

    def forget(self) -> None:
        """The caller's side: the answer is no longer wanted."""
        self.wanted = False
        self._hear = None

    @property
    def outcome(self) -> ReplyT | BaseException:
        """The answer of a settled reply, or its error."""
        assert self._settled, "there is no outcome yet"
        return self._value if self._error is None else self._error  # type: ignore[return-value]

    async def wait(self) -> ReplyT:
        """The caller's side. When cancelled, the reply is no longer wanted and can still be settled."""
        if not self._settled:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._give_up)
        if self._error is not None:
            self._raise_error()
        return self._value  # type: ignore[return-value]  # settled without an error: the value is there

    def _give_up(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        self.wanted = False
        return trio.lowlevel.Abort.SUCCEEDED

    def _raise_error(self) -> None:
        # The error's traceback holds this frame, and this frame the error: cut the circle, so that a refusal
        # leaves no garbage for the collector.
        error, self._error = self._error, None
        try:
            assert error is not None
            raise error
        finally:
            del error, self


class Letter:
    """A request in a mailbox, and its reply. A cast has one, too, which is not wanted."""

    __slots__ = ("message", "reply")

    def __init__(self, message: Request[Any], reply: Reply[Any]) -> None:
        self.message = message
        self.reply = reply
