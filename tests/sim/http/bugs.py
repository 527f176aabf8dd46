"""Bugs planted in the gateway. A world of HTTP must find each."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import trio

from goqueue.actors.front.session import BrokerSession
from goqueue.client.delayed import DelayedQuestions, WhichDelayed
from goqueue.errors import GoQueueError
from goqueue.http import gateway
from goqueue.http.members.polling import Poll
from goqueue.http.members.seats import HttpSeats, Seat
from goqueue.http.messages.publishing import PublishRun
from goqueue.http.routes import delayed, members, publishing
from tests.sim.clients.world import ClientTally, ClientWorld
from tests.sim.disk.bugs import replaced
from tests.sim.http.world import HttpWorld


class BuggyHttp(HttpWorld):
    def bug(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    async def run(self) -> ClientTally:
        with self.bug():
            return await super().run()


class PollsForNobody(BuggyHttp):
    """The client has gone, and its poll goes on; what it takes is handed to nobody."""

    def bug(self) -> AbstractContextManager[None]:
        class Endless(Poll):
            def end(self) -> None:
                pass

            async def give_back(self) -> None:
                await trio.lowlevel.checkpoint()

        return replaced(members, "Poll", Endless)


class BeatsForGhosts(BuggyHttp):
    """A task of the gateway speaks for each member, whether it is there or not."""

    def bug(self) -> AbstractContextManager[None]:
        class Speaking(HttpSeats):
            def __init__(self, new_session: Callable[[str | None], BrokerSession]) -> None:
                super().__init__(new_session)

            def put(self, seat: Seat) -> None:
                super().put(seat)
                trio.lowlevel.spawn_system_task(_beat_for_ever, seat)

        return replaced(gateway, "HttpSeats", Speaking)


async def _beat_for_ever(seat: Seat) -> None:
    try:
        while not (seat.is_gone or seat.is_closed):
            await trio.sleep(0.5)
            await seat.refresh()
    except (GoQueueError, AssertionError):
        return


class ClaimsRefusedOnes(BuggyHttp):
    """The status is 200, and what was refused is called published."""

    def bug(self) -> AbstractContextManager[None]:
        class Claiming(PublishRun):
            async def run(self) -> None:
                await super().run()
                self.statuses.clear()
                self.results = [
                    {"partition": 0, "offset": 0} if result and "code" in result else result
                    for result in self.results
                ]

        return replaced(publishing, "PublishRun", Claiming)


class SaysAllIsWell(BuggyHttp):
    """The status is 200 around results that are not."""

    def bug(self) -> AbstractContextManager[None]:
        class Mild(PublishRun):
            def status(self) -> int:
                return 200

        return replaced(publishing, "PublishRun", Mild)


class ForgetsKeys(BuggyHttp):
    """A request that is repeated under its key is written again."""

    def bug(self) -> AbstractContextManager[None]:
        return replaced(publishing, "idempotency_key", lambda _: None)


class ClaimsCancelledOnes(BuggyHttp):
    """A delayed message is called cancelled, and is delivered all the same."""

    def bug(self) -> AbstractContextManager[None]:
        class Claiming(DelayedQuestions):
            async def cancel(self, topic: str, which: WhichDelayed) -> bool:
                await trio.lowlevel.checkpoint()
                return True

        return replaced(delayed, "DelayedQuestions", Claiming)


PLANTED_OVER_HTTP: dict[str, type[ClientWorld]] = {
    "beats-for-ghosts": BeatsForGhosts,
    "claims-cancelled-ones": ClaimsCancelledOnes,
    "claims-refused-ones": ClaimsRefusedOnes,
    "forgets-idempotency-keys": ForgetsKeys,
    "polls-for-nobody": PollsForNobody,
    "says-all-is-well": SaysAllIsWell,
}
