"""A topic that may be there already, and the address that a client has by itself."""

from datetime import timedelta

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.link.address import address_of
from tests.client.test_client import Machine, machine

__all__ = ["machine"]


async def test_a_topic_that_is_as_asked_is_returned_and_else_it_is_created(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        asked = {"retention_hours": timedelta(days=2), "max_bytes": None}
        made = await client.create_topic("orders", 2, asked, exist_ok=True)
        assert made.config["retention_hours"] == 48
        found = await client.create_topic("orders", 2, {"retention_hours": 48.0}, exist_ok=True)
        assert (found.uuid, len(found.partitions)) == (made.uuid, 2)
        with pytest.raises(goqueue.TopicExists):
            await client.create_topic("orders", 2, asked)


async def test_what_differs_is_named_and_nothing_is_changed(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", 2)
        with pytest.raises(
            goqueue.TopicExists, match="it has 2 partitions, not 3 and its retention_hours is"
        ) as told:
            await client.create_topic("orders", config={"retention_hours": 1, "cleanup": "delete"}, exist_ok=True)
        assert len(told.value.details["differences"]) == 2
        assert len((await client.topic("orders")).partitions) == 2


async def test_of_many_that_create_it_at_once_all_have_the_same_topic(
    machine: Machine, autojump_clock: MockClock
) -> None:
    found = set[object]()

    async def create(client: goqueue.Client) -> None:
        found.add((await client.create_topic("orders", exist_ok=True)).uuid)

    async with machine.both() as one, machine.client() as other, trio.open_nursery() as nursery:
        for client in (one, other) * 10:
            nursery.start_soon(create, client)
    assert len(found) == 1


async def test_a_topic_that_others_delete_and_create_all_the_time_ends_the_looking(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_gone(name: str) -> goqueue.Topic:
        raise goqueue.UnknownTopic(f"there is no topic {name}")

    async with machine.both() as client:
        await client.create_topic("orders")
        monkeypatch.setattr(client, "topic", is_gone)
        with pytest.raises(goqueue.Unavailable, match="deleted and created again"):
            await client.create_topic("orders", exist_ok=True)


async def test_exist_ok_is_true_or_false(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        with pytest.raises(goqueue.InvalidConfig, match="exist_ok=1 must be True or False"):
            await client.create_topic("orders", exist_ok=1)  # type: ignore[arg-type]


# The address


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        (None, ("127.0.0.1", 7710)),
        ("", ("127.0.0.1", 7710)),
        ("ws://broker:1", ("broker", 1)),
    ],
)
def test_a_client_without_an_address_takes_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, found: tuple[str, int]
) -> None:
    monkeypatch.delenv("GOQUEUE_URL", raising=False)
    if variable is not None:
        monkeypatch.setenv("GOQUEUE_URL", variable)
    assert address_of(None) == found
    assert address_of("ws://given:2") == ("given", 2)


@pytest.mark.parametrize("surface", [goqueue, goqueue.aio, goqueue.blocking], ids=lambda each: each.__name__)
def test_a_bad_address_in_the_environment_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, surface: object
) -> None:
    monkeypatch.setenv("GOQUEUE_URL", "http://broker:7711")
    with pytest.raises(goqueue.InvalidConfig, match="GOQUEUE_URL='http://broker:7711' is not an address"):
        surface.connect()  # type: ignore[attr-defined]
