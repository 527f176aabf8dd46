"""What the tasks of a client do with schemas. Each knows the public client and the history."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

import trio

import goqueue
from goqueue.errors import ActorDied, DiskFull
from goqueue.net.wire import schemas as wire
from tests.sim.clients.history import Sent
from tests.sim.disk.history import Violation
from tests.sim.schemas.history import Attempt, Known, Look, Range, SchemaHistory, SubjectHistory

AGAIN = (goqueue.Unavailable, DiskFull, ActorDied)
"""Nobody says what became of it, or there is no room now."""
PAUSES = (0.0, 0.01, 0.05, 0.3)
NUMBERS = range(10)
ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class SchemaDesk:
    name: str
    client: goqueue.Client
    random: Random
    history: SchemaHistory
    stopping: trio.Event
    tally: dict[str, int]
    level: str = "NONE"

    def count(self, what: str) -> None:
        self.tally[what] = self.tally.get(what, 0) + 1

    async def pause(self) -> None:
        await trio.sleep(self.random.choice(PAUSES))

    async def until_answered(self, call: Callable[[], Awaitable[ResultT]]) -> ResultT:
        while True:
            try:
                return await call()
            except AGAIN:
                self.count("asked again")
                await trio.sleep(self.random.uniform(0.01, 0.2))


class Registrar:
    """Changes some subjects; nobody else does."""

    def __init__(self, desk: SchemaDesk, subjects: Sequence[str]) -> None:
        self._desk = desk
        self._subjects = [desk.history.subjects[name] for name in subjects]

    async def run(self) -> None:
        while not self._desk.stopping.is_set():
            subject = self._desk.random.choice(self._subjects)
            await self._desk.random.choice([self._register] * 5 + [self._delete, self._delete, self._remove])(
                subject
            )
            await self._desk.pause()

    # Registering

    async def _register(self, subject: SubjectHistory) -> None:
        schema, before, asked = self._drawn(), subject.now, trio.current_time()
        try:
            made = await self._desk.until_answered(
                lambda: self._desk.client.register_schema(subject.name, schema.text)
            )
        except goqueue.IncompatibleSchema:
            self._desk.count("incompatible")
            if self._fits(schema, before.live):
                raise Violation(f"{schema} is refused, and fits {before.live} at {self._desk.level}") from None
            return
        self._take(subject, schema, made, asked)

    def _drawn(self) -> Range:
        low = self._desk.random.choice([0, 0, 2, 4])
        high = self._desk.random.choice([5, 7, 9, 9])
        return Range(low, high, f"{self._desk.name} {self._desk.random.randrange(3)}")

    def _fits(self, schema: Range, live: dict[int, Known]) -> bool:
        known = [live[number].schema for number in sorted(live, reverse=True)]
        if self._desk.level == "NONE" or schema in known:
            return True
        return all(map(schema.reads, known if self._desk.level.endswith("TRANSITIVE") else known[:1]))

    def _take(self, subject: SubjectHistory, schema: Range, made: goqueue.RegisteredSchema, asked: float) -> None:
        before = subject.now
        self._desk.history.note_id(made.id, schema.text)
        same = {number: each for number, each in before.live.items() if each.schema == schema}
        if same:
            if same != {made.version: Known(made.id, schema)}:
                raise Violation(f"{schema} is {same} of {subject.name}, and was answered with {made}")
            self._desk.count("existing")
            return
        if not self._fits(schema, before.live):
            raise Violation(f"{schema} is taken by {subject.name}, and does not fit {before.live}")
        self._check_same_id(schema, made.id)
        subject.note_version(made.version, made.id)
        subject.change({**before.versions, made.version: Known(made.id, schema)}, asked)
        self._desk.count("registered")

    def _check_same_id(self, schema: Range, schema_id: int) -> None:
        """The same schema has one id in all subjects; here those of one registrar share schemas."""
        there = {
            each.id for other in self._subjects for each in other.now.versions.values() if each.schema == schema
        }
        if there - {schema_id}:
            raise Violation(f"{schema} has id {there}, and got {schema_id}")

    # Deleting

    async def _delete(self, subject: SubjectHistory) -> None:
        live, random = subject.now.live, self._desk.random
        if not live:
            return
        number = random.choice([None, *live])
        going = list(live) if number is None else [number]
        asked = trio.current_time()
        await self._ask_to_delete(subject, number, permanent=False)
        versions = dict(subject.now.versions)
        for each in going:
            versions[each] = Known(versions[each].id, versions[each].schema, is_deleted=True)
        subject.change(versions, asked)
        self._desk.count("deleted")

    async def _remove(self, subject: SubjectHistory) -> None:
        """For good: one that is softly deleted, or all of them."""
        versions, random = subject.now.versions, self._desk.random
        gone = [number for number, each in versions.items() if each.is_deleted]
        if not gone:
            return
        number = None if len(gone) == len(versions) and random.random() < 0.5 else random.choice(gone)
        asked = trio.current_time()
        await self._ask_to_delete(subject, number, permanent=True)
        going = set(versions) if number is None else {number}
        subject.change({each: known for each, known in versions.items() if each not in going}, asked)
        self._desk.count("removed")

    async def _ask_to_delete(self, subject: SubjectHistory, number: int | None, *, permanent: bool) -> None:
        """Asked again, what was done already is refused: that is an answer, too."""
        done = (40401, 40402) if permanent else (40404, 40406)
        try:
            await self._desk.until_answered(
                lambda: self._desk.client.delete_schema(subject.name, number, permanent=permanent)
            )
        except goqueue.RegistryError as error:
            if error.error_code not in done:
                raise Violation(f"{subject.name} {number} cannot be deleted: {error!r}") from error


class Looker:
    """Looks at subjects, all of a subject at once."""

    def __init__(self, desk: SchemaDesk) -> None:
        self._desk = desk

    async def run(self) -> None:
        while not self._desk.stopping.is_set():
            subject = self._desk.random.choice([*self._desk.history.subjects.values()])
            with trio.move_on_after(self._desk.random.choice([60.0, 60.0, 0.02])):
                await self._desk.until_answered(lambda: look(self._desk.client, subject))  # noqa: B023
                self._desk.count("looked")
            await trio.sleep(self._desk.random.choice([0.0, 0.001, 0.01]))


async def look(client: goqueue.Client, subject: SubjectHistory) -> None:
    begin = trio.current_time()
    answer = await client.call(wire.ListSchemas(subject.name, deleted=1), wire.Schemas)
    found = {each.version: (each.id, each.schema.text, each.is_deleted) for each in answer.schemas}
    subject.looks.append(Look(begin, trio.current_time(), found))


class SchemaPublisher:
    """Publishes messages of which some fit and some do not, one by one and many at once."""

    def __init__(self, desk: SchemaDesk) -> None:
        self._desk = desk

    async def run(self) -> None:
        while not self._desk.stopping.is_set():
            topic = self._desk.random.choice(list(self._desk.history.partitions))
            await self._desk.random.choice([self._publish, self._publish, self._send_many])(topic)
            await self._desk.pause()

    def _new(self, topic: str, acks: goqueue.Acks, schema_id: int | None) -> Sent:
        self._desk.count("sent")
        number = self._desk.random.choice(NUMBERS)
        value = json.dumps({"n": number, "by": f"{self._desk.name} {self._desk.tally['sent']}"}).encode()
        self._desk.history.attempts[value] = Attempt(topic, number, schema_id, trio.current_time())
        return self._desk.history.send(f"{self._desk.name} {topic} {number}", value, None, acks)

    def _drawn_id(self, topic: str) -> int | None:
        """One of the subject, one that it had, one of another, or none at all."""
        if self._desk.random.random() < 0.6:
            return None
        known = [each.id for state in self._desk.history.subjects[topic].states for each in state.versions.values()]
        return self._desk.random.choice([*known[-6:], self._desk.random.randint(1, 30)])

    async def _publish(self, topic: str) -> None:
        desk, random = self._desk, self._desk.random
        schema_id = self._drawn_id(topic)
        sent = self._new(topic, random.choice([goqueue.Acks.ALL, goqueue.Acks.LEADER]), schema_id)
        headers = {} if schema_id is None else {"schema-id": b"%d" % schema_id}
        with trio.move_on_after(random.choice([180.0] * 9 + [0.02])):
            try:
                published = await desk.client.publish(topic, sent.value, headers=headers, acks=sent.acks)
            except goqueue.SchemaRefused:
                self._refused(sent)
            except (*AGAIN, goqueue.OutcomeUnknown):
                desk.count("outcome unknown")
            except goqueue.DeliveryTimeout:  # it was not written, and never will be
                desk.history.refuse(sent)
            else:
                desk.history.confirm(sent, published)
                desk.history.note_accepted(sent.value)
                desk.count("confirmed")
        if not (sent.is_confirmed or sent.is_refused):
            desk.history.give_up(sent)

    async def _send_many(self, topic: str) -> None:
        desk = self._desk
        messages = [self._new(topic, goqueue.Acks.ALL, None) for _ in range(desk.random.randint(1, 8))]
        results: Sequence[object] = []
        try:
            async with desk.client.producer(topic) as producer:
                results = await producer.send_many([sent.value for sent in messages])
        except goqueue.PublishFailed as failed:
            results = failed.results
        except AGAIN:
            desk.count("outcome unknown")
        for number, sent in enumerate(messages):
            self._decide(sent, results[number] if number < len(results) else None)

    def _decide(self, sent: Sent, result: object) -> None:
        if isinstance(result, goqueue.SchemaRefused):
            self._refused(sent)
        elif isinstance(result, goqueue.Published):
            self._desk.history.confirm(sent, result)
            self._desk.history.note_accepted(sent.value)
            self._desk.count("confirmed")
        else:
            self._desk.history.give_up(sent)

    def _refused(self, sent: Sent) -> None:
        self._desk.history.refuse(sent)
        self._desk.history.note_refused(sent.value)
        self._desk.count("refused")
