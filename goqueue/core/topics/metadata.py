"""Which topics there are: the topics' part of the internal log `__metadata` (core/metadata has all of it).

A command is checked against the state and gives the record to append; it changes nothing. Once the record is in the
log, `apply` changes the state. Starting again applies the same records, so what a start finds is what was there.

A record is a map: `v` (1), `kind`, and

    create_topic     name, uuid, partitions, config, and token if the one who asked gave one
    alter_topic      name, uuid, config         the whole configuration, not the changes
    add_partitions   name, uuid, partitions     the new total; and signed
    delete_topic     name, uuid
    snapshot         topics, deleted            a list of what create_topic has, and the UUIDs of the topics deleted
                                                last; stands for all records before it

`signed` counts the partitions whose folders are on disk, from 0 on. A record that raises it is written once these
folders are durable and before their partitions start. So a partition below it whose folder is missing was lost, and
one at or above it may not have been made yet. An older goqueue does not know the field, and keeps it.

A topic made again under its old name has another UUID, and records say which of the two they mean. Commands are
repeated when their answer is lost: a repeated create is known by its token, a repeated delete by the UUID.

A version or a kind that is not known stops the replay (`UnknownFormat`): passing over a record could bring a
deleted topic back. Fields that are not known are kept and written again, so that an older goqueue does not lose
what a newer one said.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from reprlib import repr as shortened
from typing import Any, TypeAlias
from uuid import UUID

from goqueue.core.names import check_publishable, check_topic_name
from goqueue.core.topics.config import SETTINGS, TopicConfig
from goqueue.errors import InvalidConfig, InvalidName, TopicExists, UnknownFormat, UnknownTopic

VERSION = 1
PARTITIONS_MAX = 10_000
DELETED_MAX = 500
"""Limit of the deleted topics that are remembered; the oldest are forgotten first."""

MetadataRecord: TypeAlias = dict[str, Any]

_KNOWN_FIELDS = frozenset(
    {"v", "kind", "name", "uuid", "partitions", "config", "topics", "token", "deleted", "signed"}
)


@dataclass(frozen=True, slots=True)
class KnownTopic:
    name: str
    uuid: UUID
    partitions: int
    config: TopicConfig
    token: UUID | None = None
    """Drawn by the client that asked for the topic, so that a repeated request finds the same one."""
    signed: int = 0
    """The folders of the partitions below this number were made."""
    unknown_settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    unknown_fields: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def numbers(self) -> range:
        """The numbers of its partitions."""
        return range(self.partitions)

    def to_plain(self) -> MetadataRecord:
        return {
            **self.unknown_fields,
            "name": self.name,
            "uuid": str(self.uuid),
            "partitions": self.partitions,
            "config": self.plain_config(self.config),
            **({"token": str(self.token)} if self.token is not None else {}),
            **({"signed": self.signed} if self.signed else {}),
        }

    def plain_config(self, config: TopicConfig) -> dict[str, Any]:
        """Another configuration of this topic, as a record says it."""
        return {**self.unknown_settings, **config.to_plain()}


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """What a record did to one topic: made (no `before`), deleted (no `after`), or changed."""

    before: KnownTopic | None
    after: KnownTopic | None


class Metadata:
    def __init__(self) -> None:
        self._topics: dict[str, KnownTopic] = {}
        self._gone: dict[UUID, None] = {}
        """The topics deleted last, in the order of their deletion."""
        self._unknown_fields: dict[str, Any] = {}

    # What is there

    def __iter__(self) -> Iterator[KnownTopic]:
        """Every topic, in order of name."""
        return iter([self._topics[name] for name in sorted(self._topics)])

    def __len__(self) -> int:
        return len(self._topics)

    def find(self, name: str) -> KnownTopic | None:
        return self._topics.get(name)

    def topic(self, name: str) -> KnownTopic:
        topic = self._topics.get(name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {shortened(name)}{self._nearest(name)}; create it first")
        return topic

    def _nearest(self, name: str) -> str:
        near = get_close_matches(name, self._topics, n=1) if len(self._topics) <= 100 and len(name) <= 200 else []
        return f" (there is {near[0]!r})" if near else ""

    def made_by(self, name: str, token: UUID | None) -> KnownTopic | None:
        """The topic that this request made when it was heard before."""
        topic = self._topics.get(name)
        return topic if topic is not None and token is not None and topic.token == token else None

    def is_deleted(self, uuid: UUID) -> bool:
        """Whether it is one of the topics that were deleted last."""
        return uuid in self._gone

    # Commands: the record to append, or an error. The state stays as it is.

    def create_topic(
        self,
        name: object,
        partitions: object,
        config: object,
        uuid: UUID,
        *,
        token: UUID | None = None,
        by_broker: bool = False,
    ) -> MetadataRecord:
        """`config` is plain. The caller draws the UUID, which was never used before."""
        checked = check_topic_name(name, by_broker=by_broker)
        if checked in self._topics:
            raise TopicExists(
                f"topic {shortened(checked)} exists; take it as it is (exist_ok=True, --if-not-exists), alter it, "
                "or choose another name"
            )
        assert all(topic.uuid != uuid for topic in self._topics.values()), "a topic's UUID is its own"
        topic = KnownTopic(checked, uuid, _checked_partitions(partitions), TopicConfig.from_plain(config), token)
        return _record("create_topic", **topic.to_plain())

    def alter_topic(self, name: str, changes: object, *, by_broker: bool = False) -> MetadataRecord:
        """None as a value resets a setting to its default."""
        topic = self._changeable(name, by_broker)
        config = topic.plain_config(topic.config.altered(changes))
        return _record("alter_topic", name=name, uuid=str(topic.uuid), config=config)

    def add_partitions(self, name: str, total: object, *, by_broker: bool = False) -> MetadataRecord:
        """`total` is the new number of partitions. The present number is no error: a repeated call asks for it."""
        topic = self._changeable(name, by_broker)
        checked = _checked_partitions(total)
        if checked < topic.partitions:
            raise _bad_partitions(
                f"topic {shortened(name)} has {topic.partitions} partitions and cannot shrink to {checked}; "
                f"create another topic and move the messages"
            )
        return _record("add_partitions", name=name, uuid=str(topic.uuid), partitions=checked)

    def sign_partitions(self, name: str) -> MetadataRecord:
        """The folders of all its partitions are durable."""
        topic = self.topic(name)
        total = topic.partitions
        return _record("add_partitions", name=name, uuid=str(topic.uuid), partitions=total, signed=total)

    def delete_topic(self, name: str, uuid: UUID | None = None, *, by_broker: bool = False) -> MetadataRecord:
        """With a UUID only that very topic, not one made again under its name."""
        topic = self._changeable(name, by_broker)
        if uuid is not None and topic.uuid != uuid:
            raise UnknownTopic(
                f"topic {shortened(name)} was made again and is not {uuid} any more; describe it before deleting it"
            )
        return _record("delete_topic", name=name, uuid=str(topic.uuid))

    def snapshot(self) -> MetadataRecord:
        """One record that stands for all before it."""
        return self.snapshot_of(self)

    def snapshot_of(self, topics: Iterable[KnownTopic]) -> MetadataRecord:
        """The same, as if these were all topics that there are."""
        plain, deleted = [topic.to_plain() for topic in topics], list(map(str, self._gone))
        return {**self._unknown_fields, **_record("snapshot", topics=plain, deleted=deleted)}

    def _changeable(self, name: str, by_broker: bool) -> KnownTopic:
        if not by_broker:
            check_publishable(name)
        return self.topic(name)

    # Records

    def apply(self, record: object) -> list[MetadataChange]:
        """Apply a record that is in the log; returns the changes, in order. `UnknownFormat` changes nothing."""
        fields = checked_record(record)
        changes = _APPLIED[_kind_of(fields)](self, fields)
        for change in changes:
            self._perform(change)
        return changes

    def _perform(self, change: MetadataChange) -> None:
        if change.before is not None:
            del self._topics[change.before.name]
        if change.after is not None:
            self._topics[change.after.name] = change.after
        elif change.before is not None:
            self._remember_deleted([change.before.uuid])

    def _remember_deleted(self, uuids: Iterable[UUID]) -> None:
        self._gone.update(dict.fromkeys(uuids))
        for oldest in list(self._gone)[:-DELETED_MAX]:
            del self._gone[oldest]

    def _created(self, fields: MetadataRecord) -> list[MetadataChange]:
        topic = _topic_from(fields)
        if topic.name in self._topics:
            raise UnknownFormat(f"a record creates topic {topic.name!r}, which is there already")
        return [MetadataChange(None, topic)]

    def _altered(self, fields: MetadataRecord) -> list[MetadataChange]:
        before = self._meant(fields)
        config, unknown_settings = _config_from(fields)
        return [_changed(before, fields, config=config, unknown_settings=unknown_settings)]

    def _grown(self, fields: MetadataRecord) -> list[MetadataChange]:
        before = self._meant(fields)
        partitions = _partitions_from(fields)
        if partitions < before.partitions:
            raise UnknownFormat(f"a record shrinks topic {before.name!r} to {partitions} partitions")
        signed = max(before.signed, _signed_from(fields, partitions))
        return [_changed(before, fields, partitions=partitions, signed=signed)]

    def _deleted(self, fields: MetadataRecord) -> list[MetadataChange]:
        return [MetadataChange(self._meant(fields), None)]

    def _replaced(self, fields: MetadataRecord) -> list[MetadataChange]:
        """A topic that is not in the snapshot was deleted before it; one with another UUID also made again."""
        topics, deleted = _topics_from(fields), _deleted_from(fields)
        names = sorted({*self._topics, *topics})
        changes = [change for name in names for change in _difference(self.find(name), topics.get(name))]
        self._unknown_fields = _unknown(fields)
        self._remember_deleted(deleted)
        return changes

    def _meant(self, fields: MetadataRecord) -> KnownTopic:
        topic = self._topics.get(_name_from(fields))
        if topic is None or topic.uuid != _uuid_from(fields):
            raise UnknownFormat(f"a record changes topic {fields['name']!r} ({fields['uuid']}), which is not there")
        return topic


_APPLIED: dict[str, Callable[[Metadata, MetadataRecord], list[MetadataChange]]] = {
    "create_topic": Metadata._created,
    "alter_topic": Metadata._altered,
    "add_partitions": Metadata._grown,
    "delete_topic": Metadata._deleted,
    "snapshot": Metadata._replaced,
}


def _record(kind: str, **fields: Any) -> MetadataRecord:
    return {"v": VERSION, "kind": kind, **fields}


def _checked_partitions(partitions: object) -> int:
    if type(partitions) is not int or not 1 <= partitions <= PARTITIONS_MAX:
        raise _bad_partitions(f"a topic has 1 to {PARTITIONS_MAX:,} partitions, not {shortened(partitions)}")
    return partitions


def _bad_partitions(fault: str) -> InvalidConfig:
    return InvalidConfig(fault, faults=[fault])


# Reading records: whatever they hold, the answer is a topic or `UnknownFormat`.


def checked_record(record: object) -> MetadataRecord:
    """A record of a version that is known; its kind may be any."""
    if not isinstance(record, dict):
        raise UnknownFormat(f"a metadata record is a map, not {type(record).__name__}")
    version = record.get("v")
    if type(version) is not int or version != VERSION:
        raise UnknownFormat(f"metadata version {shortened(version)} is unknown; start a goqueue that knows it")
    return record


def _kind_of(record: MetadataRecord) -> str:
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in _APPLIED:
        raise UnknownFormat(f"metadata kind {shortened(kind)} is unknown; start a goqueue that knows it")
    return kind


def _topic_from(fields: object) -> KnownTopic:
    if not isinstance(fields, dict):
        raise UnknownFormat(f"a topic is a map, not {type(fields).__name__}")
    config, unknown_settings = _config_from(fields)
    partitions = _partitions_from(fields)
    return KnownTopic(
        name=_name_from(fields),
        uuid=_uuid_from(fields),
        partitions=partitions,
        signed=_signed_from(fields, partitions),
        config=config,
        token=_uuid_from(fields, "token") if fields.get("token") is not None else None,
        unknown_settings=unknown_settings,
        unknown_fields=_unknown(fields),
    )


def _topics_from(fields: MetadataRecord) -> dict[str, KnownTopic]:
    listed = fields.get("topics")
    if not isinstance(listed, list):
        raise UnknownFormat("a snapshot has no list of topics")
    topics = {topic.name: topic for topic in map(_topic_from, listed)}
    if len(topics) != len(listed):
        raise UnknownFormat("a snapshot names a topic twice")
    return topics


def _deleted_from(fields: MetadataRecord) -> list[UUID]:
    listed = fields.get("deleted", [])
    if not isinstance(listed, list):
        raise UnknownFormat("a snapshot's deleted topics are no list")
    return [_uuid_from({"uuid": each}) for each in listed[-DELETED_MAX:]]


def _changed(before: KnownTopic, fields: MetadataRecord, **changes: Any) -> MetadataChange:
    unknown_fields = {**before.unknown_fields, **_unknown(fields)}
    return MetadataChange(before, replace(before, unknown_fields=unknown_fields, **changes))


def _difference(before: KnownTopic | None, after: KnownTopic | None) -> list[MetadataChange]:
    if before == after:
        return []
    if before is None or after is None or before.uuid == after.uuid:
        return [MetadataChange(before, after)]
    return [MetadataChange(before, None), MetadataChange(None, after)]


def _unknown(fields: MetadataRecord) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in _KNOWN_FIELDS}


def _name_from(fields: MetadataRecord) -> str:
    """Checked again: the name becomes a folder."""
    try:
        return check_topic_name(fields.get("name"), by_broker=True)
    except InvalidName as error:
        raise UnknownFormat(f"in a metadata record: {error.message}") from error


def _uuid_from(fields: MetadataRecord, key: str = "uuid") -> UUID:
    try:
        return UUID(fields.get(key))
    except (TypeError, ValueError, AttributeError) as error:
        raise UnknownFormat(f"{shortened(fields.get(key))} in a metadata record is not a UUID") from error


def _partitions_from(fields: MetadataRecord) -> int:
    try:
        return _checked_partitions(fields.get("partitions"))
    except InvalidConfig as error:
        raise UnknownFormat(f"in a metadata record: {error.message}") from error


def _signed_from(fields: MetadataRecord, partitions: int) -> int:
    signed = fields.get("signed", 0)
    if type(signed) is not int or not 0 <= signed <= partitions:
        raise UnknownFormat(f"a metadata record has {shortened(signed)} signed of {partitions} partitions")
    return signed


def _config_from(fields: MetadataRecord) -> tuple[TopicConfig, dict[str, Any]]:
    plain = fields.get("config")
    if not isinstance(plain, dict):
        raise UnknownFormat("a metadata record has no configuration")
    known = SETTINGS.known(plain)
    unknown = {key: value for key, value in plain.items() if key not in known}
    return TopicConfig.from_stored(plain), unknown
