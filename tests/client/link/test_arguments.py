"""What a program gives to consumers and to the calls about groups: the wrong kind gets a typed error (G14)."""

import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

import goqueue
from goqueue import aio, blocking
from goqueue.client.consuming.options import ConsumerOptions, check_seconds, start_text
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.client.groups import altering, asking_why, resetting
from goqueue.client.letters import dismissing, redriving, wanted_letters
from goqueue.client.link.arguments import (
    check_flag,
    check_milliseconds,
    check_offset,
    check_partition_count,
    check_seconds_between,
    check_settings,
    check_whole,
)
from goqueue.client.link.moments import due_of
from goqueue.client.producing.content import check_content, priority_of
from goqueue.client.producing.options import send_options
from goqueue.client.producing.producer import Producer
from goqueue.errors import UnknownPartition
from goqueue.net.wire import groups as wire
from goqueue.net.wire import letters
from goqueue.net.wire.groups import Why
from goqueue.types import Priority
from tests.client.consuming.world import FakeBroker

NAN, INF = float("nan"), float("inf")
NOTHING: list[str] = []


class Odd:
    """Like nothing that anybody expects."""

    def __repr__(self) -> str:
        return "<odd>"  # the same in every process: tests are known by it


def shown(value: object) -> str:
    return getattr(value, "__name__", None) or str(value)[:60]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        *[
            ({"topics": topics}, goqueue.InvalidName)
            for topics in (5, None, b"orders", [5], ["orders", None], "", NOTHING)
        ],
        *[({"group": group}, goqueue.InvalidName) for group in (5, None, b"billing", ["billing"])],
        *[
            ({name: value}, goqueue.InvalidConfig)
            for name in ("max_in_flight", "max_in_flight_bytes")
            for value in ("a", None, NAN, INF, 1.5, 1.0, True, 0, -1, 2**63)
        ],
        *[
            ({"visibility_timeout": value}, goqueue.InvalidConfig)
            for value in ("a", "5", None, NAN, INF, -INF, -1, 0, True, 10**400, 12 * 3600 + 1, [5])
        ],
        *[({"auto_extend": value}, goqueue.InvalidConfig) for value in ("x", 1, 0, NOTHING)],
        *[
            ({"start": value}, goqueue.InvalidConfig)
            for value in (True, False, None, NOTHING, b"latest", Odd(), NAN, INF)
        ],
        *[({"start": value}, goqueue.OffsetOutOfRange) for value in (-1, 2**63)],
        *[({"member_id": value}, goqueue.InvalidName) for value in (5, b"m", "", "m" * 257)],
        *[({"mode": value}, goqueue.InvalidConfig) for value in (5, "both", None)],
        *[
            ({"mode": "stream", **given}, goqueue.InvalidConfig)
            for given in (
                {"auto_commit": 1},
                {"on_assigned": 5},
                {"on_revoked": "print"},
                {"visibility_timeout": 5.0},
                {"auto_extend": False},
                {"max_deliveries": 5},
                {"max_in_flight": 5},
                {"shared": True},
                {"lanes": "strict"},
            )
        ],
        *[({name: print}, goqueue.InvalidConfig) for name in ("on_assigned", "on_revoked")],
        ({"auto_commit": False}, goqueue.InvalidConfig),
        *[({"shared": value}, goqueue.InvalidConfig) for value in ("yes", 1)],
        *[({"key_order": value}, goqueue.InvalidConfig) for value in ("yes", 1)],
        *[({"lanes": value}, goqueue.InvalidConfig) for value in (5, "fair")],
        *[({"assignor": value}, goqueue.InvalidConfig) for value in (5, "fair", "")],
        *[({"rebalance": value}, goqueue.InvalidConfig) for value in (True, "lazy")],
        *[({"max_deliveries": value}, goqueue.InvalidConfig) for value in ("3", 1.5, True, -1)],
    ],
    ids=shown,
)
def test_a_consumer_refuses_what_cannot_be_at_once(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        QueueConsumer(FakeBroker(), ConsumerOptions(**{"topics": "orders", "group": "billing", **options}))


def test_topics_are_any_collection_of_names() -> None:
    def subscription(topics: Any) -> tuple[str, ...]:
        return ConsumerOptions(topics=topics, group="billing").subscription

    assert subscription("orders") == subscription(["orders"]) == subscription({"orders"}) == ("orders",)
    assert subscription(("b", "a")) == ("a", "b")


def test_a_limit_without_an_end_has_one_that_a_float_can_hold() -> None:
    with pytest.raises(goqueue.InvalidConfig, match="timeout="):
        check_seconds_between("timeout", 10**400, 0, INF)


@pytest.mark.parametrize("seconds", ["5", None, NAN, INF, -INF, -0.1, True, 10**400, Odd()], ids=shown)
def test_seconds_are_a_number_that_can_be_waited_for(seconds: object) -> None:
    with pytest.raises(goqueue.InvalidConfig, match=r"delay=.* must be 0 to 43200 seconds") as refused:
        check_seconds("delay", seconds)
    assert refused.value.details["faults"] == [refused.value.message]


def test_what_is_right_is_taken_as_it_is() -> None:
    assert [check_seconds("delay", each) for each in (0, 5, 0.5, 43_200)] == [0.0, 5.0, 0.5, 43_200.0]
    assert check_whole("max_in_flight", 7, 1) == 7
    assert check_flag("force", False) is False
    assert start_text(0) == "offset:0"


def test_an_error_says_what_to_give() -> None:
    with pytest.raises(goqueue.InvalidConfig, match="max_in_flight='a' must be a whole number, 1 to "):
        ConsumerOptions(topics="orders", group="billing", max_in_flight="a")  # type: ignore[arg-type]
    with pytest.raises(goqueue.InvalidConfig, match="auto_extend='x' must be True or False"):
        ConsumerOptions(topics="orders", group="billing", auto_extend="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "priority", [True, False, 2.0, Decimal(2), 5, -1, "urgent", "", None, b"high", [2]], ids=shown
)
def test_what_is_no_priority_is_refused(priority: Any) -> None:
    """G14: True is no one, and 2.0 no two."""
    with pytest.raises(goqueue.InvalidMessage, match=r"is no priority; there are .*normal \(2\)"):
        priority_of(priority)


def test_a_priority_is_a_name_in_any_case_or_a_number() -> None:
    assert {priority_of(each) for each in (1, "high", "High", "HIGH", Priority.HIGH)} == {Priority.HIGH}


# Calls about topics


@pytest.mark.parametrize("config", [1, "x", [("retention_hours", 5)], {5: 5}], ids=shown)
def test_settings_of_a_topic_are_a_map(config: object) -> None:
    with pytest.raises(goqueue.InvalidConfig, match=r"config=.* must be a map of settings' names to their values"):
        check_settings("config", config)


@pytest.mark.parametrize("partitions", [-1, 0, 10_001, "3", 3.0, True, None], ids=shown)
def test_a_topic_has_a_number_of_partitions(partitions: object) -> None:
    with pytest.raises(goqueue.InvalidConfig, match=r"partitions=.* must be a whole number, 1 to 10,000"):
        check_partition_count(partitions)


@pytest.mark.parametrize("value", [None, -1, 1.5, True, "0", NOTHING, Odd(), 2**70], ids=shown)
async def test_a_place_in_a_topic_is_a_partition_and_an_offset(value: Any) -> None:
    refusals = (goqueue.UnknownPartition, goqueue.InvalidMessage, goqueue.InvalidConfig, goqueue.OffsetOutOfRange)
    async with goqueue.connect("ws://127.0.0.1:1") as client:
        for partition, offset in ((value, 0), (0, value)):
            with pytest.raises(refusals):
                await client.delete_before("orders", partition, offset)
            with pytest.raises(refusals):
                await client.restore_partition("orders", partition, at_least=offset)
        with pytest.raises(goqueue.InvalidConfig, match="accept_loss"):
            await client.restore_partition("orders", 0, accept_loss="yes")  # type: ignore[arg-type]


# Calls about groups


def alter(**given: Any) -> wire.AlterGroup:
    return altering(**{"group": "billing", "settings": {"max_deliveries": 5}, "force": False, **given})


def reset(**given: Any) -> wire.ResetGroup:
    usual = {"group": "billing", "start": 7, "topic": None, "partition": None, "dry_run": False, "force": False}
    return resetting(**{**usual, **given})


def redrive(**given: Any) -> letters.Redrive:
    nothing = dict.fromkeys(("group", "partition", "offsets", "reason", "to", "max_messages", "per_second"))
    return redriving(
        **{"topic": "orders", **nothing, "all_groups": False, "dry_run": False, "again": False, **given}
    )


def dismiss(**given: Any) -> letters.Dismiss:
    nothing = dict.fromkeys(("group", "partition", "offsets", "reason", "max_messages"))
    return dismissing(**{"topic": "orders", **nothing, "note": "", "dry_run": False, **given})


def listing(**given: Any) -> object:
    nothing = dict.fromkeys(("group", "partition", "offsets", "reason", "state"))
    return wanted_letters(**{"topic": "orders", **nothing, **given})


def test_what_is_asked_travels_as_it_was_given() -> None:
    assert alter(force=True) == wire.AlterGroup("billing", {"max_deliveries": 5}, True)
    assert alter(settings={"lanes": None}).settings == {"lanes": None}
    assert reset() == wire.ResetGroup("billing", None, None, "offset:7", False, False)
    assert reset(topic="orders.dlq", partition=0).partition == 0
    assert redrive() == letters.Redrive("orders")
    assert redrive(
        group="g", partition=1, offsets=[4, 5], reason="late", to="x", max_messages=10, per_second=1, dry_run=True
    ) == letters.Redrive("orders", "g", 1, (4, 5), "late", "x", False, 10, 1, True)
    assert redrive(again=True).again
    assert dismiss(group="g", note="known", max_messages=3) == letters.Dismiss(
        "orders", "g", note="known", messages_max=3
    )


@pytest.mark.parametrize("value", [5, b"x", [], Odd(), "x" * 300, "\ud800"], ids=shown)
def test_asking_why_refuses_wrong_kinds(value: object) -> None:
    assert asking_why("billing", None) == Why("billing")
    with pytest.raises(goqueue.InvalidName):
        asking_why(value, None)
    with pytest.raises(goqueue.InvalidConfig):
        asking_why("billing", value)


@pytest.mark.parametrize("name", ["group", "force"])
@pytest.mark.parametrize("value", [5, None, [], b"x", Odd()], ids=shown)
def test_altering_refuses_wrong_kinds(name: str, value: object) -> None:
    with pytest.raises(goqueue.InvalidName if name == "group" else goqueue.InvalidConfig):
        alter(**{name: value})


@pytest.mark.parametrize(
    "settings", [None, [1], "mode=queue", 5, {1: 2}, {"max_deliveries": [1]}, {"lanes": Odd()}], ids=shown
)
def test_a_groups_settings_are_a_map_of_plain_values(settings: object) -> None:
    with pytest.raises(goqueue.InvalidConfig):
        alter(settings=settings)


RESETS: list[tuple[dict[str, Any], type[Exception]]] = [
    *[({"group": value}, goqueue.InvalidName) for value in (5, None)],
    *[({"start": value}, goqueue.InvalidConfig) for value in (None, True, NOTHING, "soon", NAN)],
    ({"start": -1}, goqueue.OffsetOutOfRange),
    *[({"topic": value}, goqueue.InvalidName) for value in (5, b"orders", ["orders"], "")],
    *[({"topic": "orders", "partition": value}, UnknownPartition) for value in ("0", 0.0, True, -1, 2**32, [0])],
    ({"partition": 0}, goqueue.InvalidConfig),
    *[({name: value}, goqueue.InvalidConfig) for name in ("dry_run", "force") for value in ("yes", 1, None)],
]
REDRIVES: list[tuple[dict[str, Any], type[Exception]]] = [
    *[({"topic": value}, goqueue.InvalidName) for value in (5, None, b"orders", ["orders"])],
    *[({"group": value}, goqueue.InvalidName) for value in (5, ["billing"], "")],
    *[({"partition": value}, UnknownPartition) for value in ("0", 0.0, True, -1, 2**32)],
    *[({"offsets": value}, goqueue.InvalidConfig) for value in (5, "12", b"12", [True], ["1"], [1.0], [None])],
    ({"offsets": list(range(16_385))}, goqueue.InvalidConfig),
    *[({"offsets": value}, goqueue.OffsetOutOfRange) for value in ([-1], [0, 2**63])],
    *[({"reason": value}, goqueue.InvalidConfig) for value in (5, b"late", ["late"], "x" * 5_000)],
    *[({"to": value}, goqueue.InvalidName) for value in (5, b"orders", ["orders"])],
    ({"to": "others", "all_groups": True}, goqueue.InvalidConfig),
    *[({"max_messages": value}, goqueue.InvalidConfig) for value in ("1", 1.5, True, -1, 2**32)],
    *[({"per_second": value}, goqueue.InvalidConfig) for value in ("1", 0.5, True, 0, -1, 2**32)],
    *[({name: value}, goqueue.InvalidConfig) for name in ("all_groups", "dry_run") for value in ("yes", 1, None)],
    *[({"again": value}, goqueue.InvalidConfig) for value in ("yes", 1, None)],
]
SELECTIONS = [row for row in REDRIVES if row[0].keys() <= {"topic", "group", "partition", "offsets", "reason"}]
DISMISSALS: list[tuple[dict[str, Any], type[Exception]]] = [
    *[({"note": value}, goqueue.InvalidConfig) for value in (5, None, b"x", "x" * 5_000)],
    *[({"max_messages": value}, goqueue.InvalidConfig) for value in ("1", True, -1)],
    *[({"dry_run": value}, goqueue.InvalidConfig) for value in ("yes", 1, None)],
]
LISTINGS: list[tuple[dict[str, Any], type[Exception]]] = [
    *[({"state": value}, goqueue.InvalidConfig) for value in (5, "", "gone", b"waiting", ["waiting"])],
]


@pytest.mark.parametrize(
    ("ask", "given", "error"),
    [
        *[(reset, *row) for row in RESETS],
        *[(redrive, *row) for row in REDRIVES],
        *[(dismiss, *row) for row in SELECTIONS + DISMISSALS],
        *[(listing, *row) for row in SELECTIONS + LISTINGS],
    ],
    ids=shown,
)
def test_resets_and_redrives_refuse_wrong_kinds(
    ask: Callable[..., object], given: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        ask(**given)


# Lengths of time


@pytest.mark.parametrize("length", [timedelta(seconds=-1), timedelta.max, timedelta.min, NAN])
def test_a_length_of_time_beyond_its_limits_is_refused_as_a_number_would_be(length: Any) -> None:
    with pytest.raises(goqueue.InvalidConfig, match="visibility_timeout="):
        ConsumerOptions("orders", group="billing", visibility_timeout=length)
    with pytest.raises(goqueue.InvalidMessage, match="delay="):
        due_of(length, None)
    with pytest.raises(goqueue.InvalidMessage, match=r"deliver_at=.* is no time"):
        due_of(None, timedelta(seconds=1))  # type: ignore[arg-type]


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1), NAN, INF, True, "5"])
def test_a_time_to_live_that_is_none_is_refused(ttl: Any) -> None:
    with pytest.raises(goqueue.InvalidMessage, match="ttl="):
        send_options(0, ttl=ttl)


def test_lengths_of_time_are_seconds_or_timedeltas() -> None:
    assert send_options(5, ttl=timedelta(milliseconds=2)).content.expires_at == 2_005
    assert due_of(timedelta(hours=1), None) == due_of(3600, None)
    assert ConsumerOptions("o", group="g", visibility_timeout=timedelta(minutes=1)).visibility_seconds == 60
    assert check_settings("config", {"retention_hours": timedelta(minutes=90), "a_seconds": timedelta(days=1)}) == {
        "retention_hours": 1.5,
        "a_seconds": 86_400,
    }
    with pytest.raises(goqueue.InvalidConfig, match="'max_bytes' is no length of time"):
        check_settings("config", {"max_bytes": timedelta(1)})


def test_a_groups_waits_are_seconds_or_timedeltas() -> None:
    asked = alter(settings={"retry_first": timedelta(seconds=2), "retry_longest": timedelta(minutes=5)})
    assert dict(asked.settings) == {"retry_first": 2.0, "retry_longest": 300.0}
    with pytest.raises(goqueue.InvalidConfig, match="setting 'max_deliveries' is text, a number"):
        alter(settings={"max_deliveries": timedelta(1)})


def test_a_length_of_time_is_no_moment_and_says_so() -> None:
    with pytest.raises(goqueue.InvalidMessage, match="is a length of time, not a moment"):
        due_of(None, timedelta(hours=1))  # type: ignore[arg-type]
    with pytest.raises(goqueue.InvalidConfig, match="is a length of time, not a moment"):
        start_text(timedelta(hours=1))  # type: ignore[arg-type]


def test_a_limit_without_an_end_is_shown_without_infinity() -> None:
    with pytest.raises(goqueue.InvalidConfig, match="drain_timeout=-1 must be 0 seconds or more, as a number"):
        check_seconds_between("drain_timeout", -1, 0, INF)


def test_a_start_before_the_first_offset_says_how_the_last_ones_are_named() -> None:
    with pytest.raises(goqueue.OffsetOutOfRange, match=r"start=-20 is no offset.*the last 20 are 'last:20'"):
        start_text(-20)
    with pytest.raises(goqueue.OffsetOutOfRange) as refused:
        check_offset("offset", -20)
    assert "last" not in refused.value.message


# Contents of a message


@pytest.mark.parametrize(
    ("value", "headers", "words"),
    [
        ("tea", None, "a value is bytes, not str; encode it$"),
        ({"order": 1}, None, "a value is bytes, not dict; encode it, as publish_json and send_json do$"),
        (b"", ["a"], "headers are a dict of text to bytes, not list"),
        (b"", {5: b"1"}, "a header's name is text that UTF-8 can hold, not 5"),
        (b"", {"a": "1"}, "header 'a' is str, not bytes; encode it"),
    ],
)
def test_contents_of_a_wrong_kind_are_named_with_what_to_do(value: object, headers: object, words: str) -> None:
    with pytest.raises(goqueue.InvalidMessage, match=words):
        check_content(value, None, headers)


@pytest.mark.parametrize("message_id", ["\ud800", "", "m" * 129, 5, b""], ids=shown)
def test_what_is_no_message_id_is_refused(message_id: Any) -> None:
    with pytest.raises(goqueue.InvalidMessage, match=r"message.id"):
        send_options(0, message_id=message_id)


@pytest.mark.parametrize(
    "many", [5, None, b"tea", "tea", {"a": b"tea"}, (each for each in (b"tea",)), Odd()], ids=shown
)
async def test_many_values_and_their_keys_are_lists(many: Any) -> None:
    producer = Producer(FakeBroker(), "orders")
    for values, keys, name in ((many, None, "values"), ([b"tea"], many, "keys")):
        if (name, keys) == ("keys", None):
            continue
        with pytest.raises(
            goqueue.InvalidMessage, match=f"{name} are a list of bytes, not .*; put them into a list"
        ):
            await producer.send_many(values, keys)
        with pytest.raises(goqueue.InvalidMessage, match=f"{name} are a list of bytes"):
            producer.send_many_nowait(values, keys)


# Clients


@pytest.mark.parametrize("surface", [goqueue, aio, blocking], ids=shown)
@pytest.mark.parametrize("name", [None, 5, b"shop", "\ud800", "n" * 257, "ü" * 129, ["shop"], Odd()], ids=shown)
def test_a_client_has_a_name_that_the_broker_takes(surface: Any, name: object) -> None:
    """Else each connection would be refused, and every call would wait for a broker that is there."""
    with pytest.raises(goqueue.InvalidConfig, match="name"):
        surface.connect("ws://127.0.0.1:1", name=name)
    with pytest.raises(goqueue.InvalidConfig, match="name"):
        surface.Worker("orders", "billing", plain if surface is blocking else waiting, name=name)


async def waiting(message: object) -> None: ...


def plain(message: object) -> None: ...


# Options of a producer


@pytest.mark.parametrize(
    "options",
    [
        *[{"linger_ms": value} for value in ("x", -5, NAN, INF, True, None, timedelta(-1))],
        *[
            {name: value}
            for name in ("batch_messages", "batch_bytes", "buffer_messages")
            for value in ("x", 0, -1, 1.5, True, None)
        ],
        *[{"idempotent": value} for value in ("no", None, 0)],
        *[{"delivery_timeout": value} for value in ("x", 0, NAN, timedelta(0))],
    ],
    ids=shown,
)
def test_a_producer_refuses_what_cannot_be_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(goqueue.InvalidConfig, match=next(iter(options))):
        Producer(FakeBroker(), "orders", **options)


async def test_a_producers_linger_is_milliseconds_or_a_timedelta() -> None:
    assert (
        check_milliseconds("linger_ms", timedelta(milliseconds=20)) == check_milliseconds("linger_ms", 20) == 0.02
    )
    Producer(FakeBroker(), "orders", linger_ms=timedelta(seconds=1))


# Priorities


def test_a_priority_is_shown_by_its_name_and_stays_a_number() -> None:
    high = Priority.HIGH
    assert (str(high), f"{high}", f"{high:>6}", f"{high:d}", repr(high)) == (
        *("high", "high", "  high", "1", "<Priority.HIGH: 1>"),
    )
    assert (high == 1, high < Priority.LOW, json.dumps([high]), sorted([Priority.LOW, high])) == (
        *(True, True, "[1]", [high, Priority.LOW]),
    )
    assert priority_of(str(high)) is high
    with pytest.raises(goqueue.InvalidMessage, match=r"critical \(0\), high \(1\)"):
        priority_of("urgent")
