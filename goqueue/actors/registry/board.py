"""What the registry shows: its state between two changes. Others read it and call nobody.

A change is on the board once it is durable, and before it is answered. So a message that is published after a
registration was answered is held to the new schema.
"""

from collections import Counter
from collections.abc import Sequence

from goqueue.actors.registry.work import SchemaWork
from goqueue.core.schemas.comparing import Found, Rules, comparing
from goqueue.core.schemas.entries import RegistryEntry
from goqueue.core.schemas.references import check_references
from goqueue.core.schemas.registering import EarlierVersion, comparisons, resolve_content
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.schemas.schema import Compatibility, Schema, VersionNumber
from goqueue.core.schemas.subjects import SubjectKey, subject_of_keys, subject_of_values, topic_of
from goqueue.core.schemas.text import SchemaContent, reading
from goqueue.core.schemas.validation.compiled import CompiledSchemas
from goqueue.core.schemas.validation.topicschemas import SubjectSchemas, TopicSchemas


class SchemaBoard:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.work = SchemaWork()
        """All long work on schemas is done by it."""
        self.registry = SchemaRegistry()
        """As it is durable: one object for good. Read it between two waits, and change nothing."""
        self.results: Counter[str] = Counter()
        """Registrations by result: `new`, `existing`, or the code of the refusal."""
        self._topics: dict[str, TopicSchemas] = {}
        self._compiled = CompiledSchemas()
        self._subjects: dict[SubjectKey, SubjectSchemas] = {}

    def of(self, topic: str) -> TopicSchemas | None:
        """The schemas of a topic; None when it has none."""
        return self._topics.get(topic)

    async def read(self, schema: Schema) -> SchemaContent:
        """A schema that somebody sent; `InvalidSchema` says what is wrong with its text or its references."""
        check_references(schema.references)
        return await self.work.run(reading(schema))

    async def check(
        self, subject: str, schema: Schema, version: VersionNumber | None = None
    ) -> tuple[Compatibility, list[Found]]:
        """What would make this schema incompatible: with one version, or with those that the subject's level names.
        Also the level. A schema that is not valid raises."""
        content = await self.read(schema)
        level = self.registry.settings(subject).level
        resolved, against = resolve_content(self.registry, content), self._compared_with(subject, level, version)
        await self.work.run(self.rules.checking(resolved))
        return level, await self.work.run(comparing(self.rules, resolved, against))

    def _compared_with(
        self, subject: str, level: Compatibility, version: VersionNumber | None
    ) -> Sequence[EarlierVersion]:
        if version is None:
            return comparisons(self.registry, subject, level)
        found = self.registry.version(subject, version)
        if level is Compatibility.NONE:
            return ()
        return [EarlierVersion(found, self.registry.resolved(found.id), level.is_backward, level.is_forward)]

    # For the registry's owner.

    def show(self, entry: RegistryEntry) -> list[SubjectKey]:
        """The entry is durable. Returns the subjects whose versions it changed."""
        changed = self.registry.apply(entry)
        for key in changed:
            self._show_subject(key)
        return changed

    def _show_subject(self, key: SubjectKey) -> None:
        found = self.registry.find(key)
        live = [] if found is None else found.live()
        if found is None or not live:
            self._subjects.pop(key, None)
        else:
            versions = tuple((each, self.registry.resolved(each.id)) for each in live)
            self._subjects[key] = SubjectSchemas(found.name, versions)
        self._show_topic(topic_of(key))

    def _show_topic(self, topic: str) -> None:
        values, keys = (self._subjects.get(name(topic)) for name in (subject_of_values, subject_of_keys))
        if values is None and keys is None:
            self._topics.pop(topic, None)
        else:
            self._topics[topic] = TopicSchemas(values, keys, self._compiled)
