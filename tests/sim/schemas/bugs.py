"""Bugs planted in the schema registry, and in what holds messages to it. A world of schemas must find each."""

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager

import trio

from goqueue.actors.node import broker
from goqueue.actors.partition.validation import MessageValidation
from goqueue.actors.registry import registry as owner
from goqueue.actors.registry.board import SchemaBoard
from goqueue.actors.topics import topics
from goqueue.core.log.admission import Admission
from goqueue.core.records.batch import Batch
from goqueue.core.schemas.comparing import Rules
from goqueue.core.schemas.entries import RegistryEntry
from goqueue.core.schemas.findings import Finding
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.schemas.schema import SchemaId
from goqueue.core.schemas.subjects import SubjectKey
from goqueue.core.schemas.validation.topicschemas import TopicSchemas
from goqueue.storage.directory import storedschemas
from goqueue.storage.directory.storedschemas import StoredSchemas
from goqueue.types import Microseconds
from tests.sim.clients.world import ClientTally, ClientWorld
from tests.sim.disk.bugs import replaced
from tests.sim.schemas.world import SchemaWorld


class BuggyRegistry(SchemaWorld):
    def bug(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    async def run(self) -> ClientTally:
        with self.bug():
            return await super().run()


class GivesIdsAgain(BuggyRegistry):
    """The lowest id that nothing has now, whatever had it before."""

    def bug(self) -> AbstractContextManager[None]:
        class Forgetful(SchemaRegistry):
            def was_given(self, schema_id: SchemaId) -> bool:
                return self.has(schema_id)

            @property
            def next_id(self) -> SchemaId:
                return next(number for number in range(1, 100_000) if not self.has(number))

        @contextmanager
        def both() -> Iterator[None]:
            with replaced(storedschemas, "SchemaRegistry", Forgetful), replaced(broker, "SchemaBoard", Shown):
                yield

        class Shown(SchemaBoard):
            def __init__(self, rules: Rules) -> None:
                super().__init__(rules)
                self.registry = Forgetful()

        return both()


class AnswersBeforeSync(BuggyRegistry):
    """What was written counts as durable."""

    def bug(self) -> AbstractContextManager[None]:
        class Hasty(StoredSchemas):
            _hasty: tuple[RegistryEntry, ...] = ()

            async def write(self, entry: RegistryEntry, now: Microseconds) -> None:
                await super().write(entry, now)
                self._hasty = (*self._hasty, entry)

            async def commit(self) -> list[RegistryEntry]:
                await trio.lowlevel.checkpoint()
                entries, self._hasty = self._hasty, ()
                return [*entries]

        return replaced(owner, "StoredSchemas", Hasty)


class ShowsBeforeSync(BuggyRegistry):
    """The board has a change when it is written. It is answered when it is durable."""

    def bug(self) -> AbstractContextManager[None]:
        boards: list[SchemaBoard] = []

        class Noted(SchemaBoard):
            def __init__(self, rules: Rules) -> None:
                super().__init__(rules)
                boards.append(self)

        class Early(StoredSchemas):
            async def write(self, entry: RegistryEntry, now: Microseconds) -> None:
                await super().write(entry, now)
                boards[-1].show(entry)

            async def commit(self) -> list[RegistryEntry]:
                await super().commit()
                return []

        @contextmanager
        def both() -> Iterator[None]:
            with replaced(broker, "SchemaBoard", Noted), replaced(owner, "StoredSchemas", Early):
                yield

        return both()


class HoldsNothing(BuggyRegistry):
    """Now and then a batch is not held to its schema."""

    def bug(self) -> AbstractContextManager[None]:
        class Careless(MessageValidation):
            _batches = 0

            async def check(self, batch: Batch, schemas: TopicSchemas, admission: Admission) -> None:
                self._batches += 1
                if self._batches % 5:
                    await super().check(batch, schemas, admission)

        return replaced(topics, "MessageValidation", Careless)


class HoldsToTheFirstSchema(BuggyRegistry):
    """Partitions go on with the schemas that they have seen first."""

    def bug(self) -> AbstractContextManager[None]:
        class Stale(SchemaBoard):
            def __init__(self, rules: Rules) -> None:
                super().__init__(rules)
                self._first: dict[str, TopicSchemas] = {}

            def of(self, topic: str) -> TopicSchemas | None:
                found = super().of(topic)
                return found and self._first.setdefault(topic, found)

        return replaced(broker, "SchemaBoard", Stale)


class ForgetsDeletions(BuggyRegistry):
    """They are applied and not written: the next life has what was deleted."""

    def bug(self) -> AbstractContextManager[None]:
        class Forgetful(StoredSchemas):
            _applied: tuple[RegistryEntry, ...] = ()

            async def write(self, entry: RegistryEntry, now: Microseconds) -> None:
                if entry["kind"] == "deleted":
                    self.registry.apply(entry)
                    self._applied = (*self._applied, entry)
                else:
                    await super().write(entry, now)

            async def commit(self) -> list[RegistryEntry]:
                applied, self._applied = self._applied, ()
                return [*applied, *await super().commit()]

        return replaced(owner, "StoredSchemas", Forgetful)


class ComparesNothing(BuggyRegistry):
    """Every schema is compatible with every other."""

    def bug(self) -> AbstractContextManager[None]:
        return replaced(broker, "SchemaBoard", lambda rules: SchemaBoard(Rules(rules.checking, _no_findings)))


def _no_findings(_: object, __: object) -> Generator[None, None, list[Finding]]:
    yield
    return []


class ShowsSubjectsLate(BuggyRegistry):
    """The schemas of a topic change with the next change only."""

    def bug(self) -> AbstractContextManager[None]:
        class Late(SchemaBoard):
            def __init__(self, rules: Rules) -> None:
                super().__init__(rules)
                self._before: RegistryEntry | None = None

            def show(self, entry: RegistryEntry) -> list[SubjectKey]:
                before, self._before = self._before, entry
                if entry["kind"] == "snapshot":
                    self._before = None
                    return super().show(entry)
                return [] if before is None else super().show(before)

        return replaced(broker, "SchemaBoard", Late)


PLANTED_AMONG_SCHEMAS: dict[str, type[ClientWorld]] = {
    "answers-before-sync": AnswersBeforeSync,
    "compares-nothing": ComparesNothing,
    "forgets-deletions": ForgetsDeletions,
    "gives-ids-again": GivesIdsAgain,
    "holds-nothing": HoldsNothing,
    "holds-to-the-first-schema": HoldsToTheFirstSchema,
    "shows-before-sync": ShowsBeforeSync,
    "shows-subjects-late": ShowsSubjectsLate,
}
