"""docs/protocol.md says what the code does: every kind, field, limit, error and byte of it is held to that."""

import re
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import pytest

from goqueue.core.ledger.settlements import Action
from goqueue.core.records.inspection import inspect_records
from goqueue.core.records.record import FLAGS_FROM_CLIENTS, decode_records
from goqueue.core.why.rules import RULES
from goqueue.net.session.client import ClientSession
from goqueue.net.session.events import AnswerReceived, HelloReceived, RequestReceived, Welcomed
from goqueue.net.session.server import ServerSession
from goqueue.net.wire.codec import decode, encode
from goqueue.net.wire.failures import CLASSES
from goqueue.net.wire.fields import U16, U32, U63, Blob, Count, Name, Prose, Range, Secret, Size, Uuid
from goqueue.net.wire.groups import AskOffsets, CommitOffsets, JoinGroup, Receive, Received, Settle, Why
from goqueue.net.wire.kinds import ANSWERS, BODIES, KINDS, Answer, Request
from goqueue.net.wire.limits import FRAME_SIZE_MAX
from goqueue.net.wire.messages import Hello, Produce, Welcome
from goqueue.net.wire.registry import name_of
from goqueue.net.wire.schemas import SchemaText, Subject
from tests.storage.logs import records_in

PAGE = (Path(__file__).parents[2] / "docs/protocol.md").read_text()
WORDS = {
    U16: "u16",
    U32: "u32",
    U63: "u63",
    Name: "name",
    Prose: "prose",
    Uuid: "uuid",
    Secret: "secret",
    Blob: "blob",
    Subject: "subject",
    SchemaText: "schema text",
}


def words(annotation: Any) -> str:
    """A field's type as the page names it."""
    if annotation in WORDS:
        return WORDS[annotation]
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        (kept,) = [each for each in get_args(annotation) if each is not NoneType]
        return words(kept) + " or nil"
    if origin is not Annotated:
        return "bool" if annotation is bool else str(annotation.__name__)
    base, limit = get_args(annotation)
    if isinstance(limit, Range):
        return f"{limit.lowest} to {limit.highest}"
    if isinstance(limit, Size):
        return f"{limit.smallest} to {limit.largest} bytes"
    return "properties" if get_origin(base) is dict else f"list of {words(get_args(base)[0])}"


def fields_of(body: Any) -> list[tuple[str, str]]:
    hints = get_type_hints(body, include_extras=True)
    optional = body._field_defaults
    return [(name, words(hints[name]) + (", optional" if name in optional else "")) for name in body._fields]


def section(title: str) -> str:
    found = re.search(rf"^##+ {title}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no section {title!r}"
    return found[1]


def rows(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", text, re.MULTILINE)


def parts_of(body: Any) -> list[Any]:
    """The types inside a message that have fields of their own."""
    found = []
    for hint in get_type_hints(body, include_extras=True).values():
        pending = [hint]
        while pending:
            each = pending.pop()
            if hasattr(each, "_fields") and not isinstance(each, Range | Size | Count):
                found += [each, *parts_of(each)]
            pending += get_args(each)
    return found


@pytest.mark.parametrize("kind", BODIES, ids=name_of)
def test_the_page_has_the_fields_of_every_kind(kind: int) -> None:
    body = BODIES[kind]
    assert rows(section(f"{kind} {body.__name__}")) == fields_of(body)


def test_the_page_has_the_fields_of_what_lies_inside() -> None:
    inside = {part.__name__: part for body in BODIES.values() for part in parts_of(body) if part not in KINDS}
    assert len(inside) == 39
    for name, part in inside.items():
        assert rows(section(name)) == fields_of(part)


def test_the_page_says_what_answers_each_request() -> None:
    for request, answer in ANSWERS.items():
        text = section(f"{KINDS[request]} {request.__name__}")
        assert f"Answer: {KINDS[answer]} {answer.__name__}." in text


def test_the_page_has_every_error() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| (yes|no) \| ", section("Errors"), re.MULTILINE))
    own = {code: kind for code, kind in CLASSES.items() if kind.__module__.startswith("goqueue.")}
    assert listed == {code: "yes" if kind.retryable else "no" for code, kind in own.items()}


def test_the_page_has_every_reason_why_nothing_is_delivered() -> None:
    listed, _, _ = section("81 Because").partition("others may come")
    assert [word for word in re.findall(r"`(\w+)`", listed) if word in RULES] == list(RULES)


def example(title: str) -> bytes:
    """The bytes of an example: each line has hex, then what it means."""
    found = re.search(rf"^#### {title}\n.*?```text\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no example {title!r}"
    return b"".join(bytes.fromhex(line.split("  ")[0]) for line in found[1].splitlines())


def test_the_examples_are_a_conversation() -> None:
    client = ClientSession()
    hello, welcome = decode(example("Hello"), FRAME_SIZE_MAX).body, decode(example("Welcome"), FRAME_SIZE_MAX).body
    assert isinstance(hello, Hello)
    assert isinstance(welcome, Welcome)
    server = ServerSession(welcome.cluster, welcome.node)
    client.hello(hello)
    assert client.next_frame() == example("Hello")
    assert server.receive(example("Hello")) == HelloReceived(hello, 1)
    server.welcome()
    assert server.next_frame() == example("Welcome")
    assert client.receive(example("Welcome")) == Welcomed(welcome)
    kinds = (Produce, JoinGroup, Receive, Settle, AskOffsets, CommitOffsets, Why)
    for number, kind in enumerate(kinds, start=1):
        asks_and_is_answered(client, server, number, kind)


def asks_and_is_answered(client: ClientSession, server: ServerSession, number: int, kind: type[Any]) -> None:
    asked, answered = example(kind.__name__), example(ANSWERS[kind].__name__)
    request, answer = decode(asked, FRAME_SIZE_MAX).body, decode(answered, FRAME_SIZE_MAX).body
    assert type(request) is kind
    assert client.request(cast(Request, request)) == number
    assert client.next_frame() == asked
    assert server.receive(asked) == RequestReceived(number, cast(Request, request))
    server.answer(number, cast(Answer, answer))
    assert server.next_frame() == answered
    assert client.receive(answered) == AnswerReceived(number, cast(Answer, answer))


def test_the_whole_client_is_short_and_needs_nothing_of_goqueue() -> None:
    """That it works against a broker is seen where the examples of all pages run."""
    [client] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert "goqueue" not in client
    assert len([line for line in client.splitlines() if line]) < 60


def test_the_delivery_of_the_example_is_the_message_that_was_published() -> None:
    received, settle = (
        decode(example("Received"), FRAME_SIZE_MAX).body,
        decode(example("Settle"), FRAME_SIZE_MAX).body,
    )
    assert isinstance(received, Received)
    assert isinstance(settle, Settle)
    [delivery], [settled] = received.partitions, settle.deliveries
    [record] = records_in(delivery.data)
    assert (record.key, record.value, record.offset) == (b"k", b"hello", delivery.runs[0].first)
    assert (settled.nonce, settled.runs, settled.action) == (delivery.nonce, delivery.runs, Action.ACK)


def test_the_record_of_the_example_is_sound() -> None:
    produce = decode(example("Produce"), FRAME_SIZE_MAX).body
    assert isinstance(produce, Produce)
    body = produce.batches[0].body
    inspect_records(body, 1, FLAGS_FROM_CLIENTS)
    (record,) = decode_records(body, 1, 4711)
    assert (record.key, record.value, record.timestamp) == (b"k", b"hello", 1_700_000_000_000_000)


def test_the_parts_of_the_example_make_its_message() -> None:
    server = ServerSession(bytes(16), "node")
    server.receive(encode(Hello(1, (), "example")))
    server.welcome()
    first, second = example("First part"), example("Second part")
    assert server.receive(first) is None
    event = server.receive(second)
    assert isinstance(event, RequestReceived)
    assert encode(event.request, event.correlation) == b"\x93\x1a\x09\x91\xa6orders"
