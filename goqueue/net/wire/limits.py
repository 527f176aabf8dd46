"""How much one end takes from the other."""

from dataclasses import dataclass

from goqueue.net.wire.fields import LIST_COUNT_MAX

MIB = 1024 * 1024

FRAME_SIZE_MAX = MIB
HELLO_SIZE_MAX = 64 * 1024
MESSAGE_SIZE_MAX = 33 * MIB
"""The largest batch, 32 MiB, and room for what stands around it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one session. The first three are part of the protocol, the others protect this end's memory."""

    frame_size_max: int = FRAME_SIZE_MAX
    hello_size_max: int = HELLO_SIZE_MAX
    message_size_max: int = MESSAGE_SIZE_MAX
    requests_max: int = 256
    """Requests not answered yet."""
    partial_messages_max: int = 8
    """Messages of which some parts have come."""
    partial_bytes_max: int = 2 * MESSAGE_SIZE_MAX
    """What all of these will have together when they are whole."""
    items_max: int = 2 * LIST_COUNT_MAX
    """Limit of the items of all lists of a request together: nested lists could hold millions and take seconds to
    read."""
