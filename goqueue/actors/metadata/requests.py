"""What the owner of the metadata can be asked. What it was told is durable when it answers."""

from dataclasses import dataclass
from uuid import UUID

from goqueue.actors.runtime.messages import Request
from goqueue.core.groups.adoption import Adoption
from goqueue.core.groups.memory import RememberedMember
from goqueue.core.groups.registry import KnownGroup, SeenTopic
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.topics.metadata import MetadataRecord


@dataclass(frozen=True, slots=True)
class ReadTopics(Request[MetadataRecord]):
    """A snapshot of all topics."""


@dataclass(frozen=True, slots=True)
class WriteTopics(Request[None]):
    """Records about topics: all or none."""

    records: tuple[MetadataRecord, ...]


@dataclass(frozen=True, slots=True)
class ReadRegister(Request[tuple[KnownGroup, ...]]):
    """Every group there is."""


@dataclass(frozen=True, slots=True)
class ReadLeaving(Request[tuple[KnownGroup, ...]]):
    """Those that were removed and that partitions may still have."""


@dataclass(frozen=True, slots=True)
class ReadDamage(Request[bool]):
    """Whether entries about groups were lost, or may have been, and nobody has looked for the groups since."""


@dataclass(frozen=True, slots=True)
class ReadGroup(Request[KnownGroup]):
    name: str


@dataclass(frozen=True, slots=True)
class NoteMade(Request[KnownGroup]):
    name: str
    id: int
    by_broker: bool = False


@dataclass(frozen=True, slots=True)
class NoteSettings(Request[KnownGroup]):
    name: str
    settings: GroupSettings


@dataclass(frozen=True, slots=True)
class NoteGeneration(Request[KnownGroup]):
    """The group may use generations up to this one."""

    name: str
    generation: int


@dataclass(frozen=True, slots=True)
class NoteBegun(Request[KnownGroup]):
    """The group sees these topics for the first time. What its first member needs besides is written with it."""

    name: str
    topics: tuple[SeenTopic, ...]
    settings: GroupSettings | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class NoteAttached(Request[KnownGroup]):
    """The first `partitions` partitions have the group's ledger durably."""

    name: str
    topic: str
    uuid: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class NoteAdopted(Request[KnownGroup]):
    """The ledgers name what the register lacks."""

    adoption: Adoption
    generation: int


@dataclass(frozen=True, slots=True)
class NoteMended(Request[None]):
    """All groups that could be found were adopted. Others may come again, and begin above this generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class NoteCeased(Request[KnownGroup]):
    name: str
    topic: str
    uuid: UUID


@dataclass(frozen=True, slots=True)
class NoteMembers(Request[KnownGroup]):
    """Who is in the group now, and owns what."""

    name: str
    members: tuple[RememberedMember, ...]


@dataclass(frozen=True, slots=True)
class NoteRemoved(Request[KnownGroup]):
    """Answered with what it was."""

    name: str


@dataclass(frozen=True, slots=True)
class NoteForgotten(Request[None]):
    name: str
    id: int
