"""The validators in use, so that each schema is compiled once."""

from collections.abc import Generator

from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.core.schemas.validation.compiling import Validator, compiling

VALIDATORS_MAX = 1_000
TEXTS_SIZE_MAX = 32 * 1024 * 1024
"""Limit of the characters of all schemas whose validators are kept. A validator has several times as many bytes."""


class CompiledSchemas:
    """A schema is known by its object. Those that were not used for the longest time go first."""

    def __init__(self, *, validators_max: int = VALIDATORS_MAX, texts_size_max: int = TEXTS_SIZE_MAX) -> None:
        self._validators: dict[int, tuple[ResolvedSchema, Validator]] = {}
        self._validators_max = validators_max
        self._texts_size_max = texts_size_max
        self._size = 0

    def __len__(self) -> int:
        return len(self._validators)

    def validator(self, resolved: ResolvedSchema) -> Generator[None, None, Validator]:
        """Compiled now, in slices, unless it is here."""
        if id(resolved) not in self._validators:
            validator = yield from compiling(resolved)
            self._keep(resolved, validator)
        kept = self._validators.pop(id(resolved))
        self._validators[id(resolved)] = kept
        return kept[1]

    def _keep(self, resolved: ResolvedSchema, validator: Validator) -> None:
        """Unless somebody else has been as quick."""
        if id(resolved) not in self._validators:
            self._validators[id(resolved)] = resolved, validator
            self._size += validator.text_size
            self._let_go()

    def _let_go(self) -> None:
        while len(self._validators) > 1 and self._is_full:
            _, validator = self._validators.pop(next(iter(self._validators)))
            self._size -= validator.text_size

    @property
    def _is_full(self) -> bool:
        return len(self._validators) > self._validators_max or self._size > self._texts_size_max
