"""Requests that a group has granted. They change the group when they are applied, and before that everything is
written that must survive a crash. A decision whose write failed is dropped, and leaves no trace."""

from dataclasses import dataclass
from typing import TypeAlias

from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.subscription import Subscription


@dataclass(frozen=True, slots=True)
class MemberJoined:
    member: str
    client: str
    subscription: Subscription
    settings: GroupSettings
    session_timeout: float
    is_static: bool
    instance: int


@dataclass(frozen=True, slots=True)
class MemberLeft:
    member: str


@dataclass(frozen=True, slots=True)
class MemberClosed:
    """It means to come back, and its membership is kept for a moment."""

    member: str


@dataclass(frozen=True, slots=True)
class SettingsAltered:
    settings: GroupSettings


Decision: TypeAlias = MemberJoined | MemberLeft | MemberClosed | SettingsAltered
