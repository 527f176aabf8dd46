"""What `goqueue.Retry` takes, and what a consumer asks of its group by it."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from goqueue import GroupConflict, InvalidConfig, InvalidMessage, Message, Retry, aio, blocking
from goqueue.client.consuming.options import ConsumerOptions
from goqueue.client.working.worker import DEFAULTS, WORKER_RETRY
from goqueue.core.groups.settings import GroupSettings
from tests.client.working.workers import World, world

__all__ = ["world"]


@pytest.mark.parametrize(
    "given",
    [
        {"attempts": -1},
        {"attempts": 2.0},
        {"attempts": True},
        {"attempts": 1_000_001},
        {"first": -0.1},
        {"first": "1s"},
        {"first": float("nan")},
        {"longest": 43_201},
        {"jitter": 1.5},
        {"jitter": None, "longest": float("inf")},
        {"first": 10, "longest": 5},
        {"never_for": ValueError("x")},
        {"never_for": (ValueError, "KeyError")},
        {"never_for": KeyboardInterrupt},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_by_its_name(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match=next(name for name, value in given.items() if value is not None)):
        Retry(**given)


def test_what_is_given_is_asked_of_the_group_and_nothing_else() -> None:
    assert Retry().settings == {}
    assert Retry(attempts=0, first=2).settings == {"max_deliveries": 0, "retry_first": 2}
    options = ConsumerOptions("orders", group="billing", shared=True, retry=Retry(longest=9, never_for=KeyError))
    assert options.settings == {"mode": "queue", "shared": True, "retry_longest": 9}
    assert GroupSettings.from_plain(DEFAULTS).to_plain() == {
        **GroupSettings().to_plain(),
        "shared": True,
        "max_deliveries": 40,
        "retry_first": 1.0,
        "retry_longest": 60.0,
        "retry_jitter": 0.2,
    }


def test_waits_may_be_timedeltas() -> None:
    given = Retry(first=timedelta(milliseconds=500), longest=timedelta(minutes=2))
    assert given == Retry(first=0.5, longest=120.0)
    with pytest.raises(InvalidConfig):
        Retry(first=timedelta(days=400))


def test_a_retry_is_a_value_and_says_what_is_final() -> None:
    retry = Retry(never_for=(ValueError, KeyError))
    assert retry == Retry(never_for=(ValueError, KeyError))
    assert hash(WORKER_RETRY) == hash(Retry(attempts=40, first=1, longest=60, jitter=0.2))
    assert Retry(never_for=ValueError).is_final(UnicodeError())
    assert retry.is_final(KeyError())
    assert not retry.is_final(IndexError())
    assert not Retry().is_final(ValueError())


@pytest.mark.parametrize(
    ("options", "cure"),
    [
        ({"max_deliveries": 5, "retry": Retry(attempts=5)}, "retry.attempts and max_deliveries"),
        ({"retry": {"attempts": 5}}, "goqueue.Retry"),
        ({"mode": "stream", "retry": Retry(first=1)}, 'retry is for mode "queue"'),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], cure: str) -> None:
    with pytest.raises(InvalidConfig, match=cure):
        ConsumerOptions("orders", group="billing", **options)
    assert ConsumerOptions("orders", group="billing", max_deliveries=5, retry=Retry(first=2)).settings == {
        "mode": "queue",
        "max_deliveries": 5,
        "retry_first": 2,
    }


def test_the_surfaces_share_it() -> None:
    assert aio.Retry is blocking.Retry is Retry


# With a broker


async def next_dead_letter(world: World) -> Message:
    async with world.client.read("orders.dlq") as reader:
        return await anext(reader)


async def test_a_group_has_the_waits_of_its_first_member_and_others_conflict_until_it_is_altered(
    world: World, autojump_clock: MockClock
) -> None:
    retry = Retry(attempts=7, first=3, longest=5, jitter=0)
    async with world.client.consumer("orders", group="billing", retry=retry):
        settings = (await world.client.group("billing")).settings
        assert {name: settings[name] for name in retry.settings} == retry.settings
        with pytest.raises(GroupConflict) as refused:
            await world.client.consumer("orders", group="billing", retry=Retry(first=1, longest=60)).__aenter__()
        assert refused.value.details["settings"] == "['retry_first', 'retry_longest']"
    await world.client.alter_group("billing", {"retry_first": 1, "retry_longest": 60.0})
    async with world.client.consumer("orders", group="billing", retry=Retry(first=1, longest=60)):
        pass


async def test_a_failed_message_comes_again_after_the_waits_of_its_group_and_then_is_a_dead_letter(
    world: World, autojump_clock: MockClock
) -> None:
    await world.publish(1)
    times = list[float]()
    retry = Retry(attempts=4, first=3, longest=5)
    async with world.client.consumer("orders", group="billing", retry=retry) as consumer:
        async for message in consumer:
            times.append(trio.current_time())
            await message.fail(OSError("the bank is away"))
            if message.attempt == 4:
                break
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert [round(wait) for wait in waits] == [3, 5, 5]
    dead = await next_dead_letter(world)
    assert dead.headers["goqueue-dlq-reason"] == b"OSError: the bank is away"


async def test_an_error_that_is_final_makes_a_dead_letter_at_once(world: World, autojump_clock: MockClock) -> None:
    await world.publish(2)
    retry = Retry(never_for=ValueError)
    async with world.client.consumer("orders", group="billing", retry=retry) as consumer:
        first, second = await consumer.receive(timeout=5), await consumer.receive(timeout=1)
        one, other = [*first, *second]
        await one.fail(UnicodeError("no text"))
        await consumer.fail([other], KeyError("a"))
        with pytest.raises(InvalidMessage, match="no exception"):
            await consumer.fail(other, "a text")  # type: ignore[arg-type]
    partitions = (await world.client.group("billing")).partitions
    assert sum(each.waiting for each in partitions) == 1
    dead = await next_dead_letter(world)
    assert (dead.value, dead.headers["goqueue-dlq-reason"]) == (one.value, b"UnicodeError: no text")
