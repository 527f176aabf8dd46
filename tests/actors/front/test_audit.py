"""The audit: a line for each change by an operator, whatever becomes of it."""

import json
import logging

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import goqueue
from goqueue.errors import GoQueueError
from goqueue.net.wire.delays import CancelDelayed
from goqueue.net.wire.groups import DeleteGroup, ResetGroup, Settle
from goqueue.net.wire.kinds import Request
from goqueue.net.wire.messages import Done
from goqueue.testing import loopback_broker
from tests.actors.front.connectionstage import staged
from tests.actors.front.test_session import JOIN, ack, session_of


@pytest.fixture
def audited(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "goqueue.audit")
    return caplog


def lines(audited: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    return [json.loads(each.getMessage()) for each in audited.records if each.name == "goqueue.audit"]


def shown(audited: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    return [(each["request"], each["resource"], each["outcome"]) for each in lines(audited)]


async def test_a_change_is_audited_with_its_outcome(
    autojump_clock: MockClock, audited: pytest.LogCaptureFixture
) -> None:
    async with staged() as stage:
        session = session_of(stage)
        assert await session.call(DeleteGroup("g"), "abc") == Done()
        with pytest.raises(GoQueueError):
            await session.call(DeleteGroup("a/b\n"))
        await session.call(JOIN)
        await session.call(Settle("g", (ack(1),)))
        await session.call(ResetGroup("g", None, None, "latest", dry_run=True))
    assert shown(audited) == [
        ("delete_group", "group:g", "done"),
        ("delete_group", "group:a/b\n", "invalid_name"),
    ]
    first = lines(audited)[0]
    assert (first["principal"], first["address"], first["request_id"]) == ("anonymous", "127.0.0.1:5000", "abc")


async def test_a_change_whose_client_leaves_before_the_answer_is_audited(
    autojump_clock: MockClock, audited: pytest.LogCaptureFixture
) -> None:
    """Else a client could hide what it did: it asks, and cuts the connection."""
    async with staged() as stage:
        stage.group.gate = trio.Event()
        await stage.client.post(JOIN)
        await wait_all_tasks_blocked()
        await stage.client.post(ResetGroup("g", None, None, "latest"))
        await wait_all_tasks_blocked()
        stage.client.transport.cut()
        await wait_all_tasks_blocked()
        assert shown(audited) == [("reset_group", "group:g", "unknown")]


async def test_a_topic_that_a_request_names_by_its_uuid_is_audited(
    autojump_clock: MockClock, audited: pytest.LogCaptureFixture
) -> None:
    request: Request = CancelDelayed(bytes(16), 0, 5)
    async with staged() as stage:
        with pytest.raises(GoQueueError):
            await session_of(stage).call(request)
    assert shown(audited) == [("cancel_delayed", f"topic:{'00' * 16}", "unknown_partition")]


def test_a_change_over_a_socket_is_audited_with_its_address_and_the_name_of_its_topic(
    audited: pytest.LogCaptureFixture,
) -> None:
    with loopback_broker() as address, goqueue.blocking.connect(address) as client:
        client.create_topic("orders")
        published = client.publish("orders", b"secret", delay=3_600)
        assert published.offset is not None
        assert client.cancel_delayed("orders", published.partition, published.offset)
    assert shown(audited) == [("create_topic", "topic:orders", "done"), ("cancel_delayed", "topic:orders", "done")]
    assert all(each["address"].startswith("127.0.0.1:") for each in lines(audited))
    assert "secret" not in audited.text
