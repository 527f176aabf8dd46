"""The dead letters of a node: transfers to their topics, redrives and dismissals, and what was decided.

Partitions tell it that some wait. It asks them for nothing that they have not journaled, so its own state is
nothing: after a crash it looks at all partitions once.
"""

from random import Random

from goqueue.actors.deadletters.carrier import DeadLetterCarrier
from goqueue.actors.deadletters.inbox import Inbox
from goqueue.actors.deadletters.redrive import Redriver
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.environment import WallClock


class DeadLetterService(Actor):
    def __init__(
        self,
        topics: ActorRef,
        register: ActorRef,
        random: Random,
        clock: WallClock,
        counts: GroupCounts | None = None,
    ) -> None:
        self._topics = topics
        self._register = register
        self._random = random
        self._clock = clock
        self._counts = counts or GroupCounts()

    async def start(self) -> None:
        carrier = DeadLetterCarrier(self._topics, self)
        inbox = Inbox(self._topics, self._register, self, self._clock)
        redriver = Redriver(self._topics, self._register, self, self._random, inbox, counts=self._counts)
        self.add_parts(carrier, redriver, inbox)
        self.background(carrier.look_for)
        self.background(redriver.finish, endless=True)
