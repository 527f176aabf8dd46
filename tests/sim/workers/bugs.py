"""Bugs planted in what counts as a delivery, and in the client of a worker. A world of workers must find each."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import trio

from goqueue.client.consuming import queue
from goqueue.client.consuming.delivery import ReceivedDelivery
from goqueue.client.consuming.leases import Leases
from goqueue.client.consuming.stock import Stock
from goqueue.client.consuming.unconfirmed import Unconfirmed
from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns
from goqueue.core.ledger.entries import Begun, Delivered, Entry, LanesDelivered
from goqueue.core.ledger.ledger import Ledger
from goqueue.storage.snapshotlog.ledgers import WrittenLedger
from tests.sim.clients.world import ClientTally, ClientWorld
from tests.sim.disk.bugs import replaced
from tests.sim.workers import plan
from tests.sim.workers.world import WorkerWorld


class BuggyWorkers(WorkerWorld):
    def bug(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    async def run(self) -> ClientTally:
        with self.bug():
            return await super().run()


class WorkerLedgerBug(BuggyWorkers):
    """Planted in every ledger."""

    ledger_class: type[Ledger]

    def bug(self) -> AbstractContextManager[None]:
        return replaced(WrittenLedger, "ledger_class", self.ledger_class)


class CountsWhatIsHeldAhead(WorkerLedgerBug):
    class ledger_class(Ledger):  # noqa: N801
        def apply(self, entry: Entry, now: float) -> None:
            if isinstance(entry, Delivered | LanesDelivered):
                entry = replace(entry, tells_begun=False)
            super().apply(entry, now)


class CountsNothing(WorkerLedgerBug):
    """Whoever is told that handlers begin says so, and writes nothing down."""

    class ledger_class(Ledger):  # noqa: N801
        def note_begun(
            self, now: float, nonce: int, runs: Iterable[AttemptRun]
        ) -> tuple[Begun | None, AttemptRuns]:
            return None, super().note_begun(now, nonce, runs)[1]


class ForgetsAcksAtClose(BuggyWorkers):
    """A consumer that closes does not wait until acks are answered, and does not say which were not."""

    def bug(self) -> AbstractContextManager[None]:
        class Forgetful(Unconfirmed):
            async def flush(self) -> None:
                await trio.lowlevel.checkpoint()

            @property
            def count(self) -> int:
                return 0

        return replaced(queue, "Unconfirmed", Forgetful)


class SlowWorkers(WorkerWorld):
    """Leases are short, and a handler in six is slower than they last."""

    def __init__(self, seed: int, without: Collection[int] = ()) -> None:
        seconds = ((*plan.QUICK, *plan.QUICK, 0.7, 0.9),)
        with replaced(plan, "SECONDS_OF_HANDLERS", seconds), replaced(plan, "VISIBILITIES", (0.5,)):
            super().__init__(seed, without)


class LetsLeasesEndAhead(SlowWorkers, BuggyWorkers):
    """A client takes leases for longer than they are, and renews none: they end while messages are held ahead."""

    @contextmanager
    def bug(self) -> Iterator[None]:
        class Hopeful(Stock):
            def add(self, delivery: ReceivedDelivery, now: float, visibility: float) -> None:
                super().add(delivery, now, 100 * visibility)

            def old_ahead(self, count_max: int, now: float) -> list[ReceivedDelivery]:
                return []

        class Lazy(Leases):
            async def run(self) -> None:
                await trio.sleep_forever()

        with replaced(queue, "Stock", Hopeful), replaced(queue, "Leases", Lazy):
            yield


PLANTED_AMONG_WORKERS: dict[str, type[ClientWorld]] = {
    "counts-nothing": CountsNothing,
    "counts-what-is-held-ahead": CountsWhatIsHeldAhead,
    "forgets-acks-at-close": ForgetsAcksAtClose,
    "lets-leases-end-ahead": LetsLeasesEndAhead,
}
