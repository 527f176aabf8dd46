"""The settings of the registry and of its subjects. What a subject has not of its own, it has from the registry."""

from dataclasses import dataclass
from typing import NamedTuple

from goqueue.core.schemas.schema import Compatibility, Mode


class EffectiveSettings(NamedTuple):
    """Those that hold."""

    level: Compatibility
    normalize: bool
    mode: Mode


DEFAULTS = EffectiveSettings(Compatibility.BACKWARD, False, Mode.READWRITE)


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """Those that a subject has of its own, or that were set for the registry."""

    level: Compatibility | None = None
    normalize: bool | None = None
    mode: Mode | None = None

    @property
    def has_config(self) -> bool:
        return self.level is not None or self.normalize is not None

    def over(self, below: EffectiveSettings) -> EffectiveSettings:
        return EffectiveSettings(
            below.level if self.level is None else self.level,
            below.normalize if self.normalize is None else self.normalize,
            below.mode if self.mode is None else self.mode,
        )


NONE_OWN = OwnSettings()
