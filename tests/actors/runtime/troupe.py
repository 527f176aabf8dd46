"""Small actors and callers that the tests put on stage."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.handlers import answers, defers, hears
from goqueue.actors.runtime.messages import Letter, News, Reply, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import AddChildren


class Bug(Exception):
    """Something that no handler expected."""


@dataclass(frozen=True, slots=True)
class Do(Request[Any]):
    """Run this in the handler; what it returns is the answer."""

    action: "Callable[[Puppet], Awaitable[Any]]"


@dataclass(frozen=True, slots=True)
class Keep(Request[Any]):
    """Keep the reply: it is deferred."""


@dataclass(frozen=True, slots=True)
class Fact(News):
    value: int


@dataclass(frozen=True, slots=True)
class OtherFact(News):
    value: int


class Puppet(Actor):
    """Does what its messages say, and writes down what happens to it."""

    def __init__(self, journal: list[str] | None = None) -> None:
        self.journal = [] if journal is None else journal
        self.kept: list[Reply[Any]] = []
        self.facts: list[tuple[str, News]] = []
        self.batches: list[int] = []

    async def start(self) -> None:
        self.journal.append(f"{self.name} starts")

    async def stop(self) -> None:
        self.journal.append(f"{self.name} stops")

    def close(self) -> None:
        self.journal.append(f"{self.name} closes")

    async def handle_batch(self, batch: Sequence[Letter]) -> None:
        self.batches.append(len(batch))
        await super().handle_batch(batch)

    @answers(Do)
    async def do(self, message: Do) -> Any:
        return await message.action(self)

    @defers(Keep)
    async def keep(self, _message: Keep, reply: Reply[Any]) -> None:
        self.kept.append(reply)

    @hears(Fact)
    async def fact(self, sender: str, news: Fact) -> None:
        self.facts.append((sender, news))

    @hears(OtherFact)
    async def other_fact(self, sender: str, news: OtherFact) -> None:
        self.facts.append((sender, news))


async def itself(puppet: Puppet) -> Puppet:
    return puppet


async def nothing(_puppet: Puppet) -> None:
    pass


async def rest(_puppet: Puppet) -> None:
    await trio.sleep(1)


async def hang(_puppet: Puppet) -> None:
    await trio.sleep_forever()


async def crash(_puppet: Puppet) -> None:
    raise Bug("crash")


def calling(target: ActorRef, message: Request[Any]) -> Do:
    """Have the actor call another one."""

    async def action(_puppet: Puppet) -> Any:
        return await target.call(message)

    return Do(action)


def puppet(name: str, journal: list[str] | None = None, **options: Any) -> ChildSpec:
    return ChildSpec(name, lambda: Puppet(journal), **options)


async def add_child(supervisor: ActorRef, spec: ChildSpec) -> ActorRef:
    """Add one child; raises what its start raised."""
    [outcome] = await supervisor.call(AddChildren((spec,)))
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def unsettled(ref: ActorRef) -> int:
    """How many callers wait for an answer that the actor owes them."""
    return len(ref._mailbox.unsettled)


def background_tasks(ref: ActorRef) -> int:
    return ref._mailbox.party.background_tasks


def those_up(*specs: ChildSpec) -> list[str]:
    return [spec.name for spec in specs if not spec.ref.is_down]


@dataclass
class Caller:
    """Calls in a task of its own and keeps what came of it."""

    ref: ActorRef
    message: Request[Any]
    answer: Any = None
    error: Exception | None = None
    done: bool = False
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    async def __call__(self) -> None:
        with self.scope:
            try:
                self.answer = await self.ref.call(self.message)
            except Exception as error:
                self.error = error
            self.done = True


def start_call(nursery: trio.Nursery, ref: ActorRef, message: Request[Any]) -> Caller:
    caller = Caller(ref, message)
    nursery.start_soon(caller)
    return caller


@dataclass
class Doomed:
    """A tree that is expected to crash, and the error that it crashed with."""

    ref: ActorRef
    error: BaseException | None = None


@asynccontextmanager
async def crashing(kind: type[BaseException], spec: ChildSpec, match: str | None = None) -> AsyncIterator[Doomed]:
    """Run the tree until it crashes with this error, bare; the block may end before that."""
    doomed = Doomed(spec.ref)
    with pytest.raises(kind, match=match) as raised:  # noqa: PT012 - the crash may come anywhere in the block
        async with running(spec):
            yield doomed
            await trio.sleep_forever()
    doomed.error = raised.value
