"""Messages read from JSON: numbers keep their digits, hostile objects cost little."""

from typing import Any

import orjson
import pytest
from trio.testing import MockClock

from goqueue.core.sending.partitioner import Partitioner
from goqueue.errors import GoQueueError
from goqueue.http.messages.incoming import GatheredMessages, MessageGathering, read_message
from goqueue.http.routing.reading import EXACT_SIZE_MAX, parse_exactly, parse_json
from goqueue.http.server.errors import InvalidRequest
from tests.steps import steps_of

WHOLE = [
    b"123456789012345678901234567890",
    b"-99999999999999999999",
    b'{"wei":1000000000000000000000,"list":[18446744073709551616,0.5]}',
    b"[18446744073709551616]",
    b'{"a":{"b":100000000000000000000}}',
]
"""Each has a whole number beyond 64 bits."""


async def gathered(data: bytes) -> GatheredMessages:
    return await MessageGathering(0, Partitioner(1, 0)).gather([parse_json(data)])


@pytest.mark.parametrize("value", WHOLE)
async def test_numbers_that_were_rounded_are_noticed_and_read_again(value: bytes) -> None:
    body = b'{"value_json": ' + value + b"}"
    assert (await gathered(body)).may_be_rounded
    assert read_message(parse_exactly(body), 0)[0] == value


@pytest.mark.parametrize(
    "value",
    [
        b"18446744073709551615",
        b"-9223372036854775808",
        b'"123456789012345678901234567890"',
        b'{"id":"5e30","hex":"a:5e30","b":[1e+18,0.5]}',
        b"[" * 300 + b"]" * 300,
    ],
)
async def test_other_values_in_json_are_read_once(value: bytes) -> None:
    """They are stored as they were sent, keys in their order, without spaces."""
    body = b'{"value_json": ' + value + b"}"
    assert not (await gathered(body)).may_be_rounded
    assert read_message(parse_json(body), 0)[0] == value


def test_a_long_body_with_such_numbers_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidRequest, match="the JSON as text in `value`"):
        parse_exactly(b" " * EXACT_SIZE_MAX + b"1")


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="is not JSON"):
        parse_exactly(b"9" * 5_000)


@pytest.mark.parametrize("partition", ["1", 1.0, True])
def test_a_partition_is_a_whole_number(partition: Any) -> None:
    with pytest.raises(InvalidRequest, match="whole number"):
        read_message({"value": "x", "partition": partition}, 0)


@pytest.mark.parametrize(
    "content",
    [
        lambda count: {f"{number:x}": 0 for number in range(count)},
        lambda count: {"headers": {f"{number:x}": "" for number in range(count)}},
    ],
)
def test_what_has_far_too_many_parts_is_refused_without_a_look_at_each(content: Any) -> None:
    def read(count: int) -> int:
        message = {"value": "x", **content(count)}

        def refuse() -> None:
            with pytest.raises(GoQueueError):
                read_message(message, 0)

        return steps_of(refuse)

    assert read(40_000) < 2 * read(20_000) < 5_000


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
