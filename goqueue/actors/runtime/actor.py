"""The base class of actors: subclass `Actor`, mark the methods that handle messages, let a supervisor run it.

An actor is the only owner of its state, and its methods run one at a time in its own task, so there are no
locks. It is a thin shell around a core: take a batch from the mailbox, ask the core, persist, answer, sleep
until the core's next deadline.

    class Partition(Actor):
        @answers(EndOffset)
        async def end_offset(self, message: EndOffset) -> int:
            return self.log.end

An actor that does several things owns parts, one for each: plain objects with marked methods of their own, which
are tested without the actor. They run in the actor's task, as its own methods do.

The exception that a method raises decides what follows. A `GoQueueError` is a refusal: it goes to that caller, the
actor lives, so check first and mutate after. Anything else is a bug or a broken disk: the actor crashes, every
caller that waits for it gets `ActorDied`, and its supervisor builds a new one from the state on disk.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, TypeVarTuple, Unpack

import trio

from goqueue.actors.runtime.handlers import Handler, add_handlers, marks_of
from goqueue.actors.runtime.life import Life
from goqueue.actors.runtime.messages import Letter, News
from goqueue.actors.runtime.ref import ActorRef

Args = TypeVarTuple("Args")


class Actor:
    batch_max: ClassVar[int] = 256
    """Maximum number of letters in a turn. They are handled as one: see `end_turn`."""

    ends_turns: ClassVar[bool] = False
    _handlers: dict[type[Any], Handler]
    _life: Life

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        marks_of(cls)  # type: ignore[arg-type]  # a mistake among them shows where the class is made
        cls.ends_turns = cls.end_turn is not Actor.end_turn

    def begin_life(self, life: Life) -> None:
        """For the runtime, before `start`."""
        self._life, self._handlers = life, {}
        add_handlers(self._handlers, self)

    # A subclass may override these.

    async def start(self) -> None:
        """Make ready. Its exceptions go to the supervisor; callers wait until it returns."""

    async def stop(self) -> None:
        """Put everything in order. The mailbox is empty, no finite background task runs, none will come.

        The supervisor waits for a bounded time, then it cancels the actor. Runs at a stop only, not after a
        crash: an actor that crashed is not to be trusted with the disk.
        """

    def close(self) -> None:
        """Give back what `start` took: files, locks, ports. Runs on every way out, also after half a start.

        It cannot wait, and no task of the actor runs any more.
        """

    def stop_asked(self) -> None:
        """The actor was asked to stop, perhaps in the middle of a handler: cancel long work."""

    async def handle_batch(self, batch: Sequence[Letter]) -> None:
        """Handle the letters of one turn. Replies that are not settled at its end are deferred."""
        for letter in batch:
            await self.handle(letter)

    async def handle_news(self, sender: str, news: News) -> None:
        await self._handler_for(news).method(sender, news)

    def next_deadline(self) -> float | None:
        """When, in Trio's time, `tick` wants to be called; None for never. Asked before every sleep."""
        return None

    async def tick(self, now: float) -> None:
        """The deadline has passed. A deadline that stays in the past ticks again in the next turn."""

    async def end_turn(self) -> None:
        """After the deadline, the news and the letters of a turn: persist what they changed, in one write.

        An actor that overrides this speaks only after it persisted: the answers of its `@answers` methods
        leave when it has returned, and if it raises they never do.
        """

    # A subclass may use these.

    def add_parts(self, *parts: object) -> None:
        """Give these objects the messages for which they have marked methods. For `start`."""
        for part in parts:
            add_handlers(self._handlers, part)

    async def handle(self, letter: Letter) -> None:
        """Give one letter to the method that is marked for it."""
        message = letter.message
        handler = self._handlers.get(type(message)) or self._handler_for(message)
        try:
            if handler.defers:
                await handler.method(message, letter.reply)
                letter.reply.deferred = True
            else:
                self._life.answer(letter.reply, await handler.method(message))
        except Exception as error:
            if not self._life.refuse(letter.reply, error):
                raise

    def background(
        self, task: Callable[[Unpack[Args]], Awaitable[object]], *args: *Args, endless: bool = False
    ) -> trio.CancelScope:
        """Run a task beside the actor; its crash is the actor's. The scope returned cancels it.

        A stop waits for the end of a finite task. An endless one is cancelled once `stop` has returned.
        """
        return self._life.background(task, *args, endless=endless)

    def wake(self) -> None:
        """Have a turn soon: a background task moved the next deadline."""
        self._life.mailbox.wake()

    async def await_hint(self) -> None:
        """For a background task: wait for the first hint (`ref.hint`) since the last call."""
        await self._life.mailbox.hinted.wait()
        self._life.mailbox.hinted = trio.Event()

    def show(self, board: object | None) -> None:
        """Let others look at this without a message: `ref.board`. Take it back when it is no longer true."""
        self._life.mailbox.board = board

    @property
    def ref(self) -> ActorRef:
        """A reference for others, so that they can send it news. To call it from a handler is a `CallCycle`."""
        return ActorRef(self._life.mailbox)

    @property
    def name(self) -> str:
        return self._life.mailbox.party.name

    def _handler_for(self, message: object) -> Handler:
        handler = self._handlers.get(type(message))
        if handler is None:
            raise TypeError(f"{type(self).__name__} has no method for {type(message).__name__}")
        return handler
