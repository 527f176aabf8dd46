"""Bugs planted on purpose. A simulator that does not find them proves nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

from goqueue.actors.partition.appending import Appending
from goqueue.actors.partition.arrivals import Arrival
from goqueue.actors.partition.partition import Partition
from goqueue.actors.partition.requests import Produced
from goqueue.environment import File
from goqueue.storage.log import recovery, scan
from goqueue.storage.log.recovery import Recovery
from goqueue.storage.log.scan import Damage
from goqueue.storage.log.volume import Volume
from tests.sim.disk.world import Tally, World


@contextmanager
def replaced(owner: ModuleType | type, name: str, value: object) -> Iterator[None]:
    """A public name of a module, or a `…_class` attribute of a class, is another one for a while."""
    assert not name.startswith("_"), f"{name} of {owner} is private: see tests/sim/README.md"
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class AnswersBeforeSync(World):
    class partition_class(Partition):  # noqa: N801
        class appending_class(Appending):  # noqa: N801
            def answer(self, arrival: Arrival, answer: Produced) -> None:
                arrival.reply.resolve(answer)


class ShowsWhatIsNotDurable(World):
    class partition_class(Partition):  # noqa: N801
        async def end_turn(self) -> None:
            await super().end_turn()
            self.log._high_watermark = self.log.end_offset


class StopsWithoutClosing(World):
    class partition_class(Partition):  # noqa: N801
        async def stop(self) -> None:
            self.log.abandon()


class ForgetsFolders(World):
    class volume_class(Volume):  # noqa: N801
        async def sync(self, files: Sequence[File] = (), directories: Sequence[str] = ()) -> None:
            await super().sync(files, ())


class ChecksLengthsOnly(World):
    """Recovery and reads that look at no checksum of the body."""

    async def run(self) -> Tally:
        with replaced(scan, "body_is_sound", lambda envelope, body: len(body) == envelope.length):
            return await super().run()


class CutsRot(World):
    """All damage is taken for a torn tail."""

    async def run(self) -> Tally:
        class CutsAll(Recovery):
            async def is_torn(self, _damage: Damage, _number: int | None) -> bool:
                return True

        with replaced(recovery, "Recovery", CutsAll):
            return await super().run()


class KeepsTornTails(World):
    """Damage behind the end is left in place, and appends go on behind it."""

    async def run(self) -> Tally:
        class CutsNothing(Recovery):
            async def is_torn(self, _damage: Damage, _number: int | None) -> bool:
                return False

        with replaced(recovery, "Recovery", CutsNothing):
            return await super().run()


PLANTED: dict[str, type[World]] = {
    "answers-before-sync": AnswersBeforeSync,
    "shows-what-is-not-durable": ShowsWhatIsNotDurable,
    "stops-without-closing": StopsWithoutClosing,
    "forgets-folders": ForgetsFolders,
    "checks-lengths-only": ChecksLengthsOnly,
    "cuts-rot": CutsRot,
    "keeps-torn-tails": KeepsTornTails,
}
