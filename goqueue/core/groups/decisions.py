"""Requests that a group has granted. They change the group when they are applied, and before that everything is
written that must survive a crash. A decision whose write failed is dropped, and leaves no trace."""

from dataclasses import dataclass
from typing import TypeAlias

from goqueue.core.groups.member import HeartbeatMeaning, MemberProfile
from goqueue.core.groups.settings import GroupSettings


@dataclass(frozen=True, slots=True)
class MemberJoined:
    profile: MemberProfile


@dataclass(frozen=True, slots=True)
class MemberLeft:
    member: str
    keeps_place: bool = False
    """It means to come back, and its membership is kept for a moment."""


@dataclass(frozen=True, slots=True)
class MemberHeard:
    member: str
    meaning: HeartbeatMeaning


@dataclass(frozen=True, slots=True)
class SettingsAltered:
    settings: GroupSettings


Decision: TypeAlias = MemberJoined | MemberLeft | MemberHeard | SettingsAltered
