"""Changing the settings of the registry and of its subjects."""

from dataclasses import dataclass, replace
from reprlib import repr as shortened

from goqueue.core.schemas import refusals
from goqueue.core.schemas.entries import RegistryEntry, entry_of, settings_to_plain
from goqueue.core.schemas.registering import check_room_for_subject
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.schemas.schema import Compatibility, Mode
from goqueue.core.schemas.settings import OwnSettings
from goqueue.core.schemas.subjects import check_subject_name


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """What is None stays as it is."""

    subject: str | None = None
    """None for the registry's own settings."""
    level: str | None = None
    normalize: bool | None = None
    mode: str | None = None
    force: bool = False
    """Mode IMPORT although there are schemas."""


def level_named(name: str) -> Compatibility:
    try:
        return Compatibility(name)
    except ValueError:
        raise refusals.invalid_level(name, ", ".join(each.value for each in Compatibility)) from None


def mode_named(name: str) -> Mode:
    try:
        return Mode(name)
    except ValueError:
        raise refusals.invalid_mode(name, ", ".join(each.value for each in Mode)) from None


def change(registry: SchemaRegistry, wish: SettingsChange) -> RegistryEntry:
    _check_subject(registry, wish.subject)
    own = registry.own_settings(wish.subject)
    if wish.level is not None:
        own = replace(own, level=level_named(wish.level))
    if wish.normalize is not None:
        own = replace(own, normalize=wish.normalize)
    if wish.level is not None or wish.normalize is not None:
        _check_writable(registry, wish.subject)
    if wish.mode is not None:
        own = replace(own, mode=mode_named(wish.mode))
        _check_importable(registry, wish, own)
    return _entry(wish.subject, own)


def reset(registry: SchemaRegistry, subject: str | None, *, config: bool, mode: bool) -> RegistryEntry:
    """Take back the level and normalization that were set, or the mode."""
    own = registry.own_settings(subject)
    if config:
        if subject is not None and not own.has_config:
            raise refusals.no_own_config(subject)
        _check_writable(registry, subject)
        own = replace(own, level=None, normalize=None)
    if mode:
        if subject is not None and own.mode is None:
            raise refusals.no_own_mode(subject)
        own = replace(own, mode=None)
    return _entry(subject, own)


def _entry(subject: str | None, own: OwnSettings) -> RegistryEntry:
    return entry_of("settings", subject=subject, own=settings_to_plain(own))


def _check_subject(registry: SchemaRegistry, subject: str | None) -> None:
    if subject is not None:
        check_subject_name(subject)
        check_room_for_subject(registry, subject)


def _check_writable(registry: SchemaRegistry, subject: str | None) -> None:
    if registry.settings(subject).mode is Mode.READONLY:
        what = "the registry" if subject is None else f"subject {shortened(subject)}"
        raise refusals.not_permitted(f"{what} is in mode READONLY; set its mode to READWRITE first")


def _check_importable(registry: SchemaRegistry, wish: SettingsChange, own: OwnSettings) -> None:
    if own.mode is not Mode.IMPORT or wish.force:
        return
    if wish.subject is None and registry.total_versions:
        raise refusals.not_permitted(
            "the registry has schemas, and mode IMPORT is for an empty one; use force=true"
        )
    if wish.subject is not None and registry.find(wish.subject) is not None:
        raise refusals.not_permitted(
            f"subject {shortened(wish.subject)} has versions, and mode IMPORT is for an empty one; delete them for "
            "good, or use force=true"
        )
