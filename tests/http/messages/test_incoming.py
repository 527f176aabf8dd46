"""Messages read from JSON: numbers keep their digits, hostile objects cost little."""

from typing import Any

import orjson
import pytest
from trio.testing import MockClock

from goqueue.core.sending.partitioner import Partitioner
from goqueue.errors import GoQueueError, TooLarge
from goqueue.http.messages.incoming import MessageGathering, read_message
from goqueue.http.routing.reading import EXACT_SIZE_MAX, parse_json
from goqueue.http.server.errors import InvalidRequest
from tests.steps import steps_of


def value_of(data: bytes) -> bytes | None:
    return read_message(parse_json(data), 0)[0]


@pytest.mark.parametrize(
    "value",
    [
        b"123456789012345678901234567890",
        b"-99999999999999999999",
        b'{"wei":1000000000000000000000,"list":[18446744073709551616,0.5]}',
        b"18446744073709551615",
        b'"12345678901234567890123"',
        b'{"b":1,"a":[null,"\xc3\xbc"]}',
        b"[" * 300 + b"]" * 300,
    ],
)
def test_a_value_in_json_is_stored_as_it_was_sent(value: bytes) -> None:
    """A parser that rounds whole numbers beyond 64 bits would change what others sent, and nobody would know."""
    assert value_of(b'{"value_json": ' + value + b"}") == value


def test_in_a_long_body_numbers_that_would_be_rounded_are_refused_with_what_to_do() -> None:
    body = b'{"value_json": [%b], "headers": {"x": "%b"}}'
    with pytest.raises(InvalidRequest, match="the JSON as text in `value`"):
        parse_json(body % (b"9" * 21, b"x" * EXACT_SIZE_MAX))
    for harmless in (b"9" * 19, b'"%b"' % (b"9" * 21)):
        assert parse_json(body % (harmless, b"x" * EXACT_SIZE_MAX))


@pytest.mark.parametrize("data", [b'{"value_json": NaN}', b'{"value_json": %b}' % (b"9" * 5_000)])
def test_what_is_no_number_of_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="is not JSON"):
        parse_json(data)


@pytest.mark.parametrize("partition", ["1", 1.0, True])
def test_a_partition_is_a_whole_number(partition: Any) -> None:
    with pytest.raises(InvalidRequest, match="whole number"):
        read_message({"value": "x", "partition": partition}, 0)


def test_too_many_headers_are_refused_unseen() -> None:
    with pytest.raises(TooLarge):
        read_message({"value": "x", "headers": {f"{number}": "" for number in range(20_000)}}, 0)


def test_a_message_of_many_unknown_fields_costs_no_more_than_one_of_a_few() -> None:
    def read(count: int) -> int:
        message = {"value": "x", **{f"{number:x}": 0 for number in range(count)}}

        def refuse() -> None:
            with pytest.raises(GoQueueError):
                read_message(message, 0)

        return steps_of(refuse)

    assert read(10_000) < 2 * read(10)


async def test_refusals_keep_no_frames(autojump_clock: MockClock) -> None:
    """Thousands of them in circles with the frames that made them would stop the broker at the next collection."""
    messages: list[Any] = [7, {}, {"value": 1}, {"value_base64": "!"}, {"value": "x", "deliver_at": "soon"}]
    gathered = await MessageGathering(0, Partitioner(1, 0)).gather(messages)
    assert len(gathered.refused) == len(messages)
    for error in gathered.refused.values():
        assert (error.__traceback__, error.__context__, error.__cause__) == (None, None, None)


def test_both_spellings_of_a_field_are_known_and_not_both_at_once() -> None:
    message = orjson.loads(b'{"value": "x", "messageId": "m", "deliverAt": 1}')
    _, _, plan = read_message(message, 0)
    assert plan.name == b"m"
    with pytest.raises(InvalidRequest, match="the same field"):
        read_message({"value": "x", "messageId": "m", "message_id": "m"}, 0)
