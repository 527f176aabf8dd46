"""Parts of an actor: plain objects with methods that handle some of its messages."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.handlers import answers, defers, hears
from goqueue.actors.runtime.messages import News, Reply, Request
from goqueue.actors.runtime.root import running
from goqueue.errors import ActorDied, Closed


@dataclass(frozen=True, slots=True)
class Add(Request[int]):
    amount: int


@dataclass(frozen=True, slots=True)
class Describe(Request[str]):
    pass


@dataclass(frozen=True, slots=True)
class Double(Request[int]):
    pass


@dataclass(frozen=True, slots=True)
class Cleared(News):
    pass


class Sum:
    """A part: it has what its actor gives it, and knows nothing of the actor."""

    def __init__(self) -> None:
        self.total = 0

    @answers(Add)
    async def add(self, message: Add) -> int:
        if message.amount < 0:
            raise Closed("only upwards")
        self.total += message.amount
        return self.total

    @defers(Double)
    async def double(self, _: Double, reply: Reply[int]) -> None:
        reply.resolve(self.total * 2)

    @hears(Cleared)
    async def cleared(self, _sender: str, _: Cleared) -> None:
        self.total = 0


class Whole(Actor):
    def __init__(self, *parts: Callable[[], object]) -> None:
        self._parts = parts

    async def start(self) -> None:
        self.add_parts(*(make() for make in self._parts))

    @answers(Describe)
    async def describe(self, _: Describe) -> str:
        return "a whole"


async def test_a_part_handles_the_messages_and_the_news_that_it_marks() -> None:
    async with running(ChildSpec("whole", lambda: Whole(Sum))) as ref:
        assert await ref.call(Describe()) == "a whole"
        assert await ref.call(Add(3)) == 3
        assert await ref.call(Double()) == 6
        ref.news("test", Cleared())
        assert await ref.call(Double()) == 0


async def test_a_refusal_of_a_part_goes_to_the_caller_and_the_actor_lives() -> None:
    async with running(ChildSpec("whole", lambda: Whole(Sum))) as ref:
        with pytest.raises(Closed):
            await ref.call(Add(-1))
        assert await ref.call(Add(1)) == 1


async def test_every_start_has_parts_of_its_own() -> None:
    spec = ChildSpec("whole", lambda: Whole(Sum))
    async with running(spec) as ref:
        await ref.call(Add(3))
    with pytest.raises(ActorDied):
        await ref.call(Add(3))
    async with running(ChildSpec("whole", spec.factory)) as ref:
        assert await ref.call(Add(1)) == 1


async def test_a_message_that_two_parts_would_handle_is_refused_at_the_start() -> None:
    with pytest.raises(TypeError, match=r"Add is handled twice: in Sum\.add and in Sum"):
        async with running(ChildSpec("whole", lambda: Whole(Sum, Sum))):
            pass


async def test_a_part_is_tested_without_an_actor() -> None:
    part = Sum()
    assert await part.add(Add(2)) == 2
