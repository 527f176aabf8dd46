"""Keeps the files that show the schemas to people, behind the changes of the registry."""

import logging
from typing import NamedTuple

import trio

from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.schemas.schema import VersionNumber
from goqueue.core.schemas.stored import Subject
from goqueue.core.schemas.subjects import SubjectKey
from goqueue.errors import Closed, GoQueueError
from goqueue.storage.directory.schemafiles import SchemaFiles
from goqueue.storage.slices import Slices

logger = logging.getLogger("goqueue.schemas")

FAILURES = (GoQueueError, OSError)
END_SECONDS_MAX = 2.0
"""Limit of what a stop waits for: the next start puts them right."""


class Shown(NamedTuple):
    """A subject whose files are right."""

    name: str
    numbers: frozenset[VersionNumber]


class SchemaCopies:
    """`registry` is what is durable."""

    def __init__(self, files: SchemaFiles, registry: SchemaRegistry) -> None:
        self._files = files
        self._registry = registry
        self._changed: dict[SubjectKey, None] = {}
        self._shown: dict[SubjectKey, Shown] = {}
        self._is_behind, self._is_even = trio.Event(), trio.Event()

    def note(self, key: SubjectKey) -> None:
        """The versions of this subject have changed."""
        self._changed[key] = None
        self._is_even = trio.Event()
        self._is_behind.set()

    async def keep(self) -> None:
        """What an earlier life left is put right first."""
        names = {subject.key: subject.name for subject in self._registry}
        self._changed.update(dict.fromkeys(names))
        try:
            self._files.show_no_others(names.values())
        except FAILURES as error:
            _report(error)
        while True:
            slices = Slices()
            while self._changed:
                await self._show(next(iter(self._changed)), slices)
                await slices.step()
            self._is_even.set()
            self._is_behind = trio.Event()
            await self._is_behind.wait()

    async def _show(self, key: SubjectKey, slices: Slices) -> None:
        """After a failure the next change of the subject shows all of it."""
        del self._changed[key]
        found, shown = self._registry.find(key), self._shown.pop(key, None)
        try:
            if shown is not None and (found is None or found.name != shown.name):
                await self._files.show(shown.name, {}, slices)
                shown = None
            if found is not None:
                self._shown[key] = await self._write(found, shown, slices)
        except FAILURES as error:
            _report(error)

    async def _write(self, subject: Subject, shown: Shown | None, slices: Slices) -> Shown:
        """Only what is new, if nothing else has changed: a subject may have many versions."""
        texts = {each.version: each.schema.text for each in subject.live()}
        if shown is not None and shown.numbers <= texts.keys():
            new = {number: text for number, text in texts.items() if number not in shown.numbers}
            await self._files.add(subject.name, new, slices)
        else:
            await self._files.show(subject.name, texts, slices)
        return Shown(subject.name, frozenset(texts))

    async def end(self) -> None:
        with trio.move_on_after(END_SECONDS_MAX):
            await self._is_even.wait()


def _report(error: Exception) -> None:
    if isinstance(error, Closed):
        return  # the broker has ended; the next start puts them right
    logger.warning("the files of schemas cannot be kept up to date, and the registry goes on without: %s", error)
