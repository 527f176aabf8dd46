"""Bugs planted in the broker and in the client. A world of clients that does not find them proves nothing."""

from contextlib import AbstractContextManager
from typing import Any

import mmh3

from goqueue.actors.partition.appending import Appending
from goqueue.actors.partition.arrivals import Arrival
from goqueue.actors.partition.partition import Partition
from goqueue.actors.partition.requests import Produced
from goqueue.client.client import Client
from goqueue.core.log import producers
from goqueue.core.log.admission import Admission
from goqueue.core.sending import partitioner
from goqueue.core.sending.queue import SendQueue
from goqueue.net.session.client import ClientSession
from goqueue.net.wire.kinds import Request
from goqueue.net.wire.messages import Fetch, Fetched, Produce
from tests.sim.clients.world import ClientTally, ClientWorld
from tests.sim.disk.bugs import replaced


class Buggy(ClientWorld):
    def bug(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    async def run(self) -> ClientTally:
        with self.bug():
            return await super().run()


class AnswersBeforeSync(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        class AtOnce(Appending):
            def answer(self, arrival: Arrival, answer: Produced) -> None:
                arrival.reply.resolve(answer)

        return replaced(Partition, "appending_class", AtOnce)


class TakesRepeatsForNew(Buggy):
    """The partition writes whatever comes, whatever its sequence."""

    def bug(self) -> AbstractContextManager[None]:
        return replaced(producers, "_find_written", lambda *_: None)


class RepeatsUnderNewSequence(Buggy):
    """The client forgets under which sequence it had asked before."""

    def bug(self) -> AbstractContextManager[None]:
        before = ClientSession.request

        def request(self: ClientSession, request: Request) -> int:
            if isinstance(request, Produce):
                nobody = [
                    each._replace(producer_id=0, producer_epoch=0, base_sequence=0) for each in request.batches
                ]
                request = request._replace(batches=tuple(nobody))
            return before(self, request)

        return replaced(ClientSession, "request", request)


class DisordersAfterLoss(Buggy):
    """What waits behind a lost batch is turned round."""

    def bug(self) -> AbstractContextManager[None]:
        before = SendQueue.unanswered

        def unanswered(self: SendQueue, batch: Any) -> None:
            before(self, batch)
            self._waiting.reverse()

        return replaced(SendQueue, "unanswered", unanswered)


class SkipsAfterReconnect(Buggy):
    """What the first fetch on a new connection brings is passed over."""

    def bug(self) -> AbstractContextManager[None]:
        before = Client.call

        async def call(self: Client, request: Request, kind: type[Any]) -> Any:
            link = self.link
            answer = await before(self, request, kind)
            if isinstance(request, Fetch) and link is not self.link:
                return Fetched(tuple(each._replace(data=b"") for each in answer.partitions))
            return answer

        return replaced(Client, "call", call)


class HashesSigned(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        return replaced(partitioner, "partition_of_key", lambda key, count: mmh3.hash(key, 0) % count)


class ForgetsTheTopicsLimit(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        return replaced(Admission, "check_sizes", lambda *_: None)


PLANTED_AMONG_CLIENTS: dict[str, type[ClientWorld]] = {
    "answers-before-sync": AnswersBeforeSync,
    "takes-repeats-for-new": TakesRepeatsForNew,
    "repeats-under-new-sequence": RepeatsUnderNewSequence,
    "disorders-after-loss": DisordersAfterLoss,
    "skips-after-reconnect": SkipsAfterReconnect,
    "hashes-signed": HashesSigned,
    "forgets-the-topics-limit": ForgetsTheTopicsLimit,
}
