"""A line of the audit: who did what to what, on one line, without a payload."""

import json

from goqueue.core.security.audit import UNKNOWN, Requester, line
from goqueue.core.security.principals import ANONYMOUS
from goqueue.net.wire.delays import CancelDelayed
from goqueue.net.wire.messages import AlterTopic, DeleteTopic, TakeSnapshot

REQUESTER = Requester(ANONYMOUS, "127.0.0.1:5000", 3, "17")


def nobody(_: bytes) -> str | None:
    return None


def test_a_line_says_who_did_what_to_what() -> None:
    assert json.loads(line(REQUESTER, "delete_topic", DeleteTopic("orders"), "unknown_topic", nobody)) == {
        "principal": "anonymous",
        "address": "127.0.0.1:5000",
        "session": 3,
        "request_id": "17",
        "request": "delete_topic",
        "action": "delete",
        "resource": "topic:orders",
        "outcome": "unknown_topic",
    }


def test_a_topic_is_shown_by_its_name_where_it_is_known() -> None:
    request = CancelDelayed(bytes(16), 0, 5)
    named = json.loads(line(REQUESTER, "cancel_delayed", request, "done", lambda _: "orders"))
    assert named["resource"] == "topic:orders"
    assert (
        json.loads(line(REQUESTER, "cancel_delayed", request, "done", nobody))["resource"] == f"topic:{'00' * 16}"
    )


def test_the_cluster_has_no_name() -> None:
    assert json.loads(line(REQUESTER, "take_snapshot", TakeSnapshot(), UNKNOWN, nobody))["resource"] == "cluster"


def test_a_hostile_name_cannot_begin_a_line_of_its_own() -> None:
    """PITFALLS: whoever reads the audit trusts its lines."""
    name = 'x", "outcome": "done"}\n{"principal": "root\x1b[2K\u2028'
    text = line(REQUESTER, "delete_topic", DeleteTopic(name), "invalid_name", nobody)
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text)["resource"] == f"topic:{name}"


def test_settings_are_not_in_a_line() -> None:
    text = line(REQUESTER, "alter_topic", AlterTopic("orders", {"note": "secret"}), "done", nobody)
    assert "secret" not in text
