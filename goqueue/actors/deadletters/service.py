"""The dead letters of a node: transfers to their topics, and redrives.

Partitions tell it that some wait. It asks them for nothing that they have not journaled, so its own state is
nothing: after a crash it looks at all partitions once.
"""

from random import Random

from goqueue.actors.deadletters.carrier import DeadLetterCarrier
from goqueue.actors.deadletters.redrive import Redriver
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.ref import ActorRef


class DeadLetterService(Actor):
    def __init__(self, topics: ActorRef, register: ActorRef, random: Random) -> None:
        self._topics = topics
        self._register = register
        self._random = random

    async def start(self) -> None:
        carrier = DeadLetterCarrier(self._topics, self)
        redriver = Redriver(self._topics, self._register, self, self._random)
        self.add_parts(carrier, redriver)
        self.background(carrier.look_for)
        self.background(redriver.finish, endless=True)
