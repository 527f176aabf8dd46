"""Bugs planted in the broker and in the client. A world of clients that does not find them proves nothing."""

from contextlib import AbstractContextManager
from typing import Any

import mmh3

from goqueue.actors.partition.appending import Appending
from goqueue.actors.partition.arrivals import Arrival
from goqueue.actors.partition.partition import Partition
from goqueue.actors.partition.requests import Produced
from goqueue.actors.topics import partitions
from goqueue.client import client
from goqueue.client.client import Client
from goqueue.client.link import link
from goqueue.client.producing import partitionqueue
from goqueue.core.log import appending
from goqueue.core.log.admission import Admission
from goqueue.core.log.producers import NO_PRODUCER_ID, Judgement, Verdict
from goqueue.core.sending import partitioner
from goqueue.core.sending.queue import OutBatch, SendQueue
from goqueue.net.session.client import ClientSession
from goqueue.net.wire.kinds import Request
from goqueue.net.wire.messages import Fetch, Fetched, Produce
from goqueue.types import Buffer
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
        class WithoutSequences(Judgement):
            def judge(self, producer_id: int, epoch: int, base_sequence: int, count: int) -> Verdict:
                return super().judge(NO_PRODUCER_ID, epoch, base_sequence, count)

        return replaced(appending, "Judgement", WithoutSequences)


class RepeatsUnderNewSequence(Buggy):
    """The client forgets under which sequence it had asked before."""

    def bug(self) -> AbstractContextManager[None]:
        class Nameless(ClientSession):
            def ask(self, request: Request, *, is_lone: bool = False) -> tuple[int, bytes | None]:
                if isinstance(request, Produce):
                    nobody = [
                        each._replace(producer_id=0, producer_epoch=0, base_sequence=0) for each in request.batches
                    ]
                    request = request._replace(batches=tuple(nobody))
                return super().ask(request, is_lone=is_lone)

        return replaced(link, "ClientSession", Nameless)


class DisordersAfterLoss(Buggy):
    """What waits behind a lost batch is turned round."""

    def bug(self) -> AbstractContextManager[None]:
        class Disordered(SendQueue):
            def unanswered(self, batch: OutBatch) -> None:
                super().unanswered(batch)
                self._waiting.reverse()

        return replaced(partitionqueue, "SendQueue", Disordered)


class SkipsAfterReconnect(Buggy):
    """What the first fetch on a new connection brings is passed over."""

    def bug(self) -> AbstractContextManager[None]:
        class Skipping(Client):
            async def call(self, request: Request, kind: type[Any]) -> Any:
                before = self.link
                answer = await super().call(request, kind)
                if isinstance(request, Fetch) and before is not self.link:
                    return Fetched(tuple(each._replace(data=b"") for each in answer.partitions))
                return answer

        return replaced(client, "Client", Skipping)


class HashesSigned(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        return replaced(partitioner, "partition_of_key", lambda key, count: mmh3.hash(key, 0) % count)


class ForgetsTheTopicsLimit(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        class Generous(Admission):
            def check_records(self, _records: Buffer, _count: int) -> None:
                pass

        return replaced(partitions, "Admission", Generous)


PLANTED_AMONG_CLIENTS: dict[str, type[ClientWorld]] = {
    "answers-before-sync": AnswersBeforeSync,
    "takes-repeats-for-new": TakesRepeatsForNew,
    "repeats-under-new-sequence": RepeatsUnderNewSequence,
    "disorders-after-loss": DisordersAfterLoss,
    "skips-after-reconnect": SkipsAfterReconnect,
    "hashes-signed": HashesSigned,
    "forgets-the-topics-limit": ForgetsTheTopicsLimit,
}
