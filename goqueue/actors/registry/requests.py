"""What the owner of the schema registry can be asked. A change is durable, and on the board, when it is answered.

Who only reads asks nobody: see board.py.
"""

from dataclasses import dataclass

from goqueue.actors.runtime.messages import Request
from goqueue.core.schemas.changing import SettingsChange
from goqueue.core.schemas.schema import Schema, SchemaId, SchemaVersion, VersionNumber
from goqueue.core.schemas.settings import OwnSettings


@dataclass(frozen=True, slots=True)
class Registered:
    version: SchemaVersion
    """The version that has the schema."""
    is_new: bool
    """It was made."""


@dataclass(frozen=True, slots=True)
class Register(Request[Registered]):
    subject: str
    schema: Schema
    normalize: bool | None = None
    """None: as the subject has it."""
    force: bool = False
    """Without comparison to earlier versions."""
    id: SchemaId | None = None
    version: VersionNumber | None = None


@dataclass(frozen=True, slots=True)
class Delete(Request[tuple[VersionNumber, ...]]):
    """One version, or the subject; answered with the versions that were deleted. Version 0 is the newest."""

    subject: str
    version: VersionNumber | None = None
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class ChangeSettings(Request[OwnSettings]):
    """Answered with the settings of its own that the subject has now."""

    change: SettingsChange


@dataclass(frozen=True, slots=True)
class ResetSettings(Request[OwnSettings]):
    """Take back settings of a subject, or of the registry. Answered with what they were."""

    subject: str | None
    config: bool = False
    """Level and normalization."""
    mode: bool = False
