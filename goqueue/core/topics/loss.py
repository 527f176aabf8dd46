"""Whether a partition was lost, judged by what is left of it.

A partition that was lost must not begin anew at offset 0: its offsets would be assigned a second time (G3). One
that was being made when the process was killed must begin at 0. Two marks tell them apart. The record of the topic
counts the folders that were durable (`Topic.signed`). And a partition that was ever started has a recovery point.
"""

from dataclasses import dataclass

from goqueue.errors import InvalidConfig
from goqueue.types import Offset

RESTART_GAP = 2**31
"""A lost partition restarts this many offsets behind the highest known one. No more can have been published between
the last note of an offset and the loss."""
OFFSET_MAX = 2**62
"""Limit of the highest known offset for a restart: it leaves room for every message that may ever follow."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What is on disk of one partition."""

    has_folder: bool = False
    has_identity: bool = False
    """The file that names its topic."""
    has_segments: bool = False
    has_companions: bool = False
    """Ledgers or delays, which a partition gets once it runs."""
    has_point: bool = False
    """A recovery point, sound or not."""
    is_point_sound: bool = False
    log_start: Offset = 0
    recovery_point: Offset = 0
    named: Offset = 0
    """The highest offset that groups committed here, as {data}/offsets shows it. A group may be told to begin at an
    offset that does not exist yet, so this counts only where no sound recovery point says otherwise."""


def loss_of(remains: Remains, *, is_signed: bool) -> str | None:
    """What is missing, or None where nothing is known to be."""
    if remains.has_segments:
        return None
    if remains.is_point_sound:
        return _loss_by_point(remains)
    if not remains.has_folder:
        return "its folder is gone" if is_signed or remains.named else None
    if not remains.has_identity and not remains.has_point:
        return "its folder is empty" if is_signed or remains.named or remains.has_companions else None
    if remains.named or (remains.has_companions and not remains.has_point):
        return "its segments are gone, and no recovery point says where they ended"
    return None


def _loss_by_point(remains: Remains) -> str | None:
    """A log that was emptied, copied or restored begins where it ends, and needs no segment."""
    if remains.recovery_point == remains.log_start:
        return None
    return f"its segments are gone, which held offsets {remains.log_start} to {remains.recovery_point - 1}"


def restart_of(highest: Offset) -> Offset:
    """The offset where a lost partition restarts, when this is the highest one that anything names."""
    if highest > OFFSET_MAX:
        fault = f"offset {highest} is named for this partition, and no partition can restart behind it"
        raise InvalidConfig(f"{fault}; delete the topic and create it again", faults=[fault])
    return highest + RESTART_GAP
