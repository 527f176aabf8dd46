"""One life of an actor: from its start to its stop, crash or cancellation.

    start ─► ready ─► turn, turn, turn … ─► stop ─► close
      │                     │                 │        ▲
      └── failed ───────────┴── crash ────────┴────────┘   (a cancellation takes the same way)

A turn takes what is there: the deadline if it has passed, then news, then up to `batch_max` letters, then
`end_turn`. Every turn yields to other tasks once. However a life ends, `close` runs and every caller that still
waits for an answer gets `ActorDied`; after that no task of this life is left.
"""

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVarTuple, Unpack

import trio

from goqueue.actors.runtime.cycles import current_party
from goqueue.actors.runtime.mailbox import Mailbox, MailboxState
from goqueue.actors.runtime.messages import Letter, Reply
from goqueue.actors.runtime.restarts import never_restarts
from goqueue.errors import GoQueueError
from goqueue.nursery import PlainNursery, lone_error

if TYPE_CHECKING:
    from goqueue.actors.runtime.actor import Actor

Args = TypeVarTuple("Args")


class Life:
    def __init__(self, factory: "Callable[[], Actor]", mailbox: Mailbox) -> None:
        self._factory = factory
        self.mailbox = mailbox
        self._actor: Actor | None = None
        self.nursery: trio.Nursery | None = None
        self._unfinished = 0
        """The number of finite background tasks: a stop waits for their end."""
        self._held: dict[Reply[Any], tuple[Any, BaseException | None]] = {}
        self._holds_answers = False
        self._now = -math.inf
        """When a deadline was looked at last."""
        self.was_ready = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.mailbox.party.task = trio.lowlevel.current_task()
        current_party.set(self.mailbox.party)
        try:
            async with PlainNursery() as nursery:
                self.nursery = nursery
                nursery.start_soon(self.mailbox.keep_alarm)
                await self._live(task_status)
                nursery.cancel_scope.cancel()
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)

    async def _live(self, task_status: trio.TaskStatus[None]) -> None:
        actor = self._actor = self._factory()
        actor.begin_life(self)
        self._holds_answers = actor.ends_turns
        await actor.start()
        self.mailbox.go_live()
        self.was_ready = True
        task_status.started()
        while not self._finished():
            await self._turn(actor)
        await actor.stop()

    def ask_to_stop(self) -> None:
        """Finish the letters in the mailbox, then stop. A second call, or one after the end, changes nothing."""
        if self.mailbox.state is MailboxState.LIVE and self._actor is not None:
            self.mailbox.refuse_new()
            self._actor.stop_asked()

    def _finished(self) -> bool:
        return self.mailbox.state is MailboxState.STOPPING and self.mailbox.empty and not self._unfinished

    def _end(self, error: BaseException | None) -> None:
        crash = None if isinstance(error, trio.Cancelled) else error
        try:
            self._close(crash)
        finally:
            self.mailbox.abandon(_how_it_ended(error), crash)

    def _close(self, crash: BaseException | None) -> None:
        try:
            if self._actor is not None:
                self._actor.close()
        except Exception as failure:
            if crash is None:
                raise
            crash.add_note(f"close() failed as well: {failure!r}")

    # A turn.

    async def _turn(self, actor: "Actor") -> None:
        mailbox = self.mailbox
        deadline = actor.next_deadline()
        batch = await mailbox.gather(actor.batch_max, deadline, self._now)
        mailbox.counts.turns += 1
        if not batch:
            deadline = actor.next_deadline()  # it may have moved, which ended the wait
        if deadline is not None:
            self._now = now = trio.current_time()
            if deadline <= now:
                await actor.tick(now)
        if mailbox.has_news:
            for sender, news in mailbox.take_news():
                await actor.handle_news(sender, news)
        if batch:
            await self._handle(actor, batch)
        if self._holds_answers:
            await actor.end_turn()
            if self._held:
                self._release()

    async def _handle(self, actor: "Actor", batch: list[Letter]) -> None:
        await actor.handle_batch(batch)
        self.mailbox.counts.handled += len(batch)
        for letter in batch:
            letter.reply.deferred = letter.reply not in self._held

    def answer(self, reply: Reply[Any], value: Any) -> None:
        if self._holds_answers:
            self._held[reply] = (value, None)
        else:
            reply.resolve(value)

    def refuse(self, reply: Reply[Any], error: Exception) -> bool:
        """Fail the reply, if this is a refusal. All else, and errors that no restart may follow, are a crash."""
        refusal = lone_error(error)
        if not isinstance(refusal, GoQueueError) or never_restarts(refusal):
            return False
        if self._holds_answers:
            self._held[reply] = (None, refusal)
        else:
            reply.fail(refusal)
        return True

    def _release(self) -> None:
        held, self._held = self._held, {}
        for reply, (value, error) in held.items():
            if error is None:
                reply.resolve(value)
            else:
                reply.fail(error)

    # Tasks beside the actor's own: an fsync under way, a socket that is read. They run in the actor's nursery, so
    # the crash of one is the crash of the actor, and none outlives it.

    def background(
        self, task: Callable[[Unpack[Args]], Awaitable[object]], *args: *Args, endless: bool
    ) -> trio.CancelScope:
        assert self.nursery is not None
        scope = trio.CancelScope()
        self._count(endless, 1)
        self.nursery.start_soon(self._run_beside, scope, task, args, endless)
        return scope

    async def _run_beside(
        self,
        scope: trio.CancelScope,
        task: Callable[[Unpack[Args]], Awaitable[object]],
        args: tuple[*Args],
        endless: bool,
    ) -> None:
        """Its end wakes the actor, which may have waited for just that."""
        current_party.set(None)
        try:
            with scope:
                await task(*args)
        finally:
            self._count(endless, -1)
            self.mailbox.wake()

    def _count(self, endless: bool, change: int) -> None:
        self.mailbox.party.background_tasks += change
        if not endless:
            self._unfinished += change


def _how_it_ended(error: BaseException | None) -> str:
    if error is None:
        return "stopped"
    if isinstance(error, trio.Cancelled):
        return "was cancelled"
    return f"crashed: {error!r}"
