"""One error leaves bare, several leave together."""

import pytest
import trio

from goqueue.nursery import PlainNursery, lone_error
from tests.actors.runtime.troupe import Bug


async def fail(error: Exception) -> None:
    raise error


async def open_and(*tasks: Exception, body: Exception | None = None) -> None:
    async with PlainNursery() as nursery:
        for error in tasks:
            nursery.start_soon(fail, error)
        if body is not None:
            raise body
        await trio.sleep_forever()


async def test_one_error_leaves_bare_and_is_the_same_object() -> None:
    bug = Bug("one")
    with pytest.raises(Bug) as raised:
        await open_and(bug)
    assert raised.value is bug
    assert bug.__context__ is None


async def test_an_error_of_the_body_leaves_bare() -> None:
    bug = Bug("body")
    with pytest.raises(Bug) as raised:
        await open_and(body=bug)
    assert raised.value is bug


async def test_two_errors_leave_as_a_group_that_does_not_grow_on_its_way_up() -> None:
    async def nested() -> None:
        async with PlainNursery() as outer:
            outer.start_soon(open_and, Bug("one"), Bug("two"))

    with pytest.raises(ExceptionGroup) as raised:
        await nested()
    assert sorted(str(error) for error in raised.value.exceptions) == ["one", "two"]


async def test_an_error_during_a_cancellation_is_what_is_seen() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Bug("late")

    async def cancelled() -> None:
        with trio.CancelScope() as scope:
            async with PlainNursery() as nursery:
                nursery.start_soon(fail_when_cancelled)
                nursery.start_soon(trio.sleep_forever)
                await trio.lowlevel.checkpoint()
                scope.cancel()

    with pytest.raises(Bug, match="late"):
        await cancelled()


async def test_a_cancellation_alone_stays_a_cancellation() -> None:
    with trio.move_on_after(0) as scope:
        async with PlainNursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()
    assert scope.cancelled_caught


def test_nested_groups_of_one_are_unwrapped() -> None:
    bug = Bug("deep")
    assert lone_error(ExceptionGroup("a", [ExceptionGroup("b", [bug])])) is bug
    assert lone_error(bug) is bug
