"""The metadata of a broker, its topics and groups: the state machine behind the internal log `__metadata`.

The commands are those of the two parts (core/topics/metadata.py, core/groups/registry.py). Once a record is in the
log, `apply` changes the state. Starting again applies the same records. A record is one of the topics, or

    group      entry     an entry of the groups, as it is
    snapshot   …         the topics' snapshot, and `groups`, that of the groups; stands for all records before it

Earlier versions kept the groups in a file of their own. A log without `groups` and without a `group` record has not
imported it yet (`has_groups`), and its snapshots must not claim that there are no groups.
"""

from collections.abc import Iterable

from goqueue.core.groups.registry import GroupRegistry, RegistryEntry
from goqueue.core.topics.metadata import (
    VERSION,
    KnownTopic,
    Metadata,
    MetadataChange,
    MetadataRecord,
    checked_record,
)

GROUPS = "groups"


class BrokerMetadata:
    def __init__(self) -> None:
        self.topics = Metadata()
        self.groups = GroupRegistry()
        self.has_groups = False
        """The records speak of groups."""

    def apply(self, record: object) -> list[MetadataChange]:
        """Apply a record that is in the log; returns the changes of topics. `UnknownFormat` changes nothing."""
        fields = checked_record(record)
        match fields.get("kind"):
            case "group":
                self.groups.apply(fields.get("entry"))
                self.has_groups = True
                return []
            case "snapshot":
                return self._restore(fields)
            case _:
                return self.topics.apply(fields)

    def _restore(self, fields: MetadataRecord) -> list[MetadataChange]:
        groups = GroupRegistry()
        if GROUPS in fields:
            groups.apply(fields[GROUPS])
        changes = self.topics.apply({key: value for key, value in fields.items() if key != GROUPS})
        self.groups, self.has_groups = groups, GROUPS in fields
        return changes

    def doubt_groups(self) -> None:
        """Records were lost: nobody knows which groups there were."""
        self.groups.apply(self.groups.doubt())
        self.has_groups = True

    def snapshot(self, topics: Iterable[KnownTopic] | None = None) -> MetadataRecord:
        """One record that stands for all before it; `topics`: as if these were all that there are."""
        record = self.topics.snapshot_of(self.topics if topics is None else topics)
        return with_groups(record, self.groups.snapshot()) if self.has_groups else record


def group_record(entry: RegistryEntry) -> MetadataRecord:
    return {"v": VERSION, "kind": "group", "entry": entry}


def with_groups(snapshot: MetadataRecord, groups: RegistryEntry) -> MetadataRecord:
    """A snapshot of topics together with one of groups."""
    return {**snapshot, GROUPS: groups}
