"""References to actors. A ref is all that others hold of an actor; it stays good over restarts."""

from typing import Any

import trio

from goqueue.actors.runtime.cycles import Party, current_party, refuse_cycle
from goqueue.actors.runtime.mailbox import Mailbox, MailboxCounts, MailboxState
from goqueue.actors.runtime.messages import Letter, News, Reply, ReplyT, Request


class ActorRef:
    __slots__ = ("_mailbox",)

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorRef) and self._mailbox is other._mailbox

    def __hash__(self) -> int:
        return hash(self._mailbox)

    def __repr__(self) -> str:
        return f"<ref of {self.name}: {self._mailbox.state.value}>"

    @property
    def name(self) -> str:
        return self._mailbox.party.name

    @property
    def is_down(self) -> bool:
        """There is no actor, and none is being started."""
        return self._mailbox.state is MailboxState.DOWN

    @property
    def restarts(self) -> int:
        return max(self._mailbox.counts.starts - 1, 0)

    @property
    def starts_of_siblings(self) -> int:
        """The starts of all children of the same supervisor: while it stands still, none was restarted."""
        return self._mailbox.siblings.starts

    @property
    def board(self) -> object | None:
        """The object that the actor shows; None while there is no actor. Others only read it."""
        return self._mailbox.board

    async def shown(self) -> object | None:
        """The board; waits for an actor that is being started, and raises `ActorDied` when there is none.

        It sends no message. For tasks outside the tree and background tasks: it detects no cycle.
        """
        assert current_party.get() is None, "an actor looks at what is there"
        return await self._mailbox.wait_for_board()

    async def call(self, message: Request[ReplyT]) -> ReplyT:
        """Ask and wait for the answer; wait for room in the mailbox, and for an actor that is being started.

        There is no time limit: that is the caller's cancel scope. The answer to a cancelled caller is dropped.
        Raises what the actor refused with, `ActorDied` when it cannot answer, `CallCycle` when it could not
        answer before the caller went on.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        asker = current_party.get()
        if asker is None:
            return await self._ask(message, self._reply())
        reply: Reply[ReplyT] = self._reply(asker)
        refuse_cycle(asker, reply)
        asker.waits.append(reply)
        try:
            return await self._ask(message, reply)
        finally:
            asker.waits.remove(reply)

    async def ask(self, message: Request[ReplyT]) -> Reply[ReplyT]:
        """Ask, and come back for the answer later: `await reply.wait()`, once.

        For tasks outside the tree, such as connections: it waits for room only, so that the requests of one caller
        arrive in order. An actor uses `call`, which detects cycles.
        """
        assert current_party.get() is None, "an actor calls"
        await trio.lowlevel.checkpoint_if_cancelled()
        reply: Reply[ReplyT] = self._reply()
        await self._mailbox.post(Letter(message, reply))
        return reply

    def ask_at_once(self, message: Request[ReplyT]) -> Reply[ReplyT] | None:
        """As `ask`, without waiting: None if there is no room.

        It may also be used where a reply is heard (`Reply.then`), in an actor's turn: nobody waits for anything.
        """
        mailbox = self._mailbox
        reply: Reply[ReplyT] = Reply(mailbox.party, mailbox.unsettled, wanted=True)
        return reply if mailbox.post_if_room(Letter(message, reply)) else None

    def cast(self, message: Request[Any]) -> None:
        """Send without an answer and without waiting: `MailboxFull` when there is no room."""
        mailbox = self._mailbox
        reply: Reply[Any] = Reply(mailbox.party, mailbox.unsettled, wanted=False)
        mailbox.post_at_once(Letter(message, reply))

    def news(self, sender: str, news: News) -> None:
        """Send news: it replaces older news of this class from this sender that the actor has not handled yet.

        It never waits and never fails. An actor that is down misses it, and asks when it starts.
        """
        self._mailbox.post_news(sender, news)

    def hint(self) -> None:
        """Count something that the actor may look at in its own time (`Actor.await_hint`)."""
        mailbox = self._mailbox
        mailbox.counts.hints += 1
        if not mailbox.hinted.is_set():
            mailbox.hinted.set()

    @property
    def counts(self) -> MailboxCounts:
        return self._mailbox.counts

    @property
    def is_idle(self) -> bool:
        """The actor waits for something to do."""
        return self._mailbox.idle

    async def _ask(self, message: Request[ReplyT], reply: Reply[ReplyT]) -> ReplyT:
        await self._mailbox.post(Letter(message, reply))
        return await reply.wait()

    def _reply(self, asker: Party | None = None) -> Reply[ReplyT]:
        return Reply(self._mailbox.party, self._mailbox.unsettled, wanted=True, asker=asker)
