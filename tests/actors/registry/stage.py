"""A registry's owner alone, on a simulated disk, with rules of its own for what is valid and compatible."""

import json
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from trio.testing import MockClock

from goqueue.actors.registry.board import SchemaBoard
from goqueue.actors.registry.registry import Registry
from goqueue.actors.registry.requests import ChangeSettings, Delete, Register, Registered
from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import Supervisor
from goqueue.core.schemas.changing import SettingsChange
from goqueue.core.schemas.comparing import Rules
from goqueue.core.schemas.findings import Finding
from goqueue.core.schemas.schema import Reference, ResolvedSchema, Schema
from goqueue.core.schemas.settings import OwnSettings
from goqueue.core.schemas.text import invalid
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import mounted


@dataclass(slots=True)
class PlainRules:
    """A schema is valid unless its title is `bad`, and reads what one with the same `type` wrote. Each look takes
    `steps` steps, and each step `step_seconds` of the clock."""

    clock: MockClock | None = None
    steps: int = 1
    step_seconds: float = 0.0
    fatal: str = " "
    """A text that ends so makes the check crash."""
    checked: list[str] = field(default_factory=list)
    compared: list[tuple[str, str]] = field(default_factory=list)

    def rules(self) -> Rules:
        return Rules(self.checking, self.findings)

    def checking(self, resolved: ResolvedSchema) -> Generator[None, None, None]:
        self.checked.append(resolved.text)
        assert not resolved.text.endswith(self.fatal), "a bug"
        yield from self._work()
        if json.loads(resolved.text).get("title") == "bad":
            raise invalid("#/title is bad; correct it")

    def findings(self, reader: ResolvedSchema, writer: ResolvedSchema) -> Generator[None, None, list[Finding]]:
        self.compared.append((reader.text, writer.text))
        yield from self._work()
        old, new = (json.loads(each.text).get("type") for each in (writer, reader))
        return [] if old == new else [Finding("TYPE_CHANGED", "#/type", str(old), str(new), "keep the type")]

    def _work(self) -> Generator[None, None, None]:
        for _ in range(self.steps):
            if self.clock is not None:
                self.clock.jump(self.step_seconds)
            yield


@dataclass(slots=True)
class Stage:
    ref: ActorRef
    board: SchemaBoard

    async def register(self, subject: str, text: str, *references: Reference, force: bool = False) -> Registered:
        return await self.ref.call(Register(subject, Schema(text, references=references), force=force))

    async def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> tuple[int, ...]:
        return await self.ref.call(Delete(subject, version, permanent))

    async def set(self, subject: str | None = None, **settings: Any) -> OwnSettings:
        return await self.ref.call(ChangeSettings(SettingsChange(subject, **settings)))

    def versions(self, subject: str) -> list[tuple[int, int]]:
        """Number and id of what the board shows."""
        found = self.board.registry.find(subject)
        return [] if found is None else [(each.version, each.id) for each in found.live()]


@asynccontextmanager
async def registry_on(
    disk: SimulatedDisk, rules: PlainRules | None = None, *, restarts: bool = False
) -> AsyncIterator[Stage]:
    """With `restarts` it has a supervisor, which starts it again after a crash."""
    board = SchemaBoard((rules or PlainRules()).rules())
    async with mounted(disk) as volume:
        spec = ChildSpec("registry", lambda: Registry(volume, "/data", SimulatedClock(), board))
        root = supervised("root", lambda: Supervisor([spec])) if restarts else spec
        async with running(root):
            yield Stage(spec.ref, board)
