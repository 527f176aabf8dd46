"""Messages as answers have them: as text where it can be read, with the receipt that settles them."""

import re
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

import goqueue
from goqueue.client.consuming.delivery import LeasedMessage, Origin, ReceivedDelivery
from goqueue.client.consuming.names import DeliveredNames
from goqueue.client.reading.message import DecodedBatch
from goqueue.core.receipts import Receipt
from goqueue.http.messages.outgoing import Form, delivered_in_json, message_in_json
from goqueue.http.routing.bytes import text_of
from goqueue.net.wire.groups import DeliveryRun

CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@given(st.binary() | st.text().map(str.encode))
def test_text_is_utf_8_without_control_characters(data: bytes) -> None:
    try:
        expected = data.decode()
    except UnicodeDecodeError:
        assert text_of(data) is None
    else:
        assert text_of(data) == (None if CONTROLS.search(expected) else expected)


def test_receipts_in_bulk_are_those_of_each_message() -> None:
    """G6: also where one delivery has messages on different attempts."""
    names = DeliveredNames((DeliveryRun(0, 1, 1), DeliveryRun(4, 4, 3)))
    delivery = ReceivedDelivery(Origin("g", "t", bytes(16), 2, 0xBEEF), names, 0, None)
    batch = DecodedBatch("t", 2, b"")
    messages = [LeasedMessage(batch, offset, 0, b"") for offset in (4, 0, 1)]
    assert delivery.receipts_of(messages) == [
        (names.attempt_of(each.offset), delivery.receipt_of(each.offset)) for each in messages
    ]
    assert [attempt for attempt, _ in delivery.receipts_of(messages)] == [3, 1, 1]


async def received(client: goqueue.Client, count: int) -> Sequence[goqueue.DeliveredMessage]:
    async with client.consumer("orders", group="g") as consumer:
        found = list[goqueue.DeliveredMessage]()
        while len(found) < count:
            found += await consumer.receive(count - len(found), timeout=5)
        return found


async def test_each_message_of_a_delivery_is_shown_as_by_itself_with_its_receipt(autojump_clock: MockClock) -> None:
    """G6: on whichever attempt, whatever it has beside its value."""
    async with goqueue.testing.machine() as machine, machine.client() as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"plain")
        await client.publish("orders", b"\x00", key=b"\xff", headers={"a": b"b"}, priority="high")
        await client.publish("orders", None, key=b"k")
        async with client.consumer("orders", group="g", retry=goqueue.Retry(first=0)) as consumer:
            await consumer.nack((await consumer.receive(1, timeout=5))[0])
        messages: Sequence[LeasedMessage] = await received(client, 3)
        shown = [each for one in messages for each in delivered_in_json(one.delivery, [one], Form.AUTO)]
    for message, each in zip(messages, shown, strict=True):
        receipt = Receipt.parse(each.pop("receipt"))
        assert receipt[:4] == ("g", "orders", 0, message.offset)
        assert receipt.attempt == each.pop("attempt") == message.attempt
        assert str(receipt) == message.receipt
        assert each == message_in_json(message)
        assert (each["timestamp"], each["priority"]) == (message.timestamp, str(message.priority))
    assert {message.attempt for message in messages} == {1, 2}
