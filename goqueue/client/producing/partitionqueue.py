"""A sender's state of one partition: its send queue, and what that waits for."""

import math
from dataclasses import dataclass

from goqueue.client.link.link import Link
from goqueue.core.sending.queue import SendQueue
from goqueue.net.wire import messages as wire


@dataclass(eq=False, slots=True)
class PartitionQueue:
    partition: int
    messages: SendQueue
    identity: wire.ProducerReady | None
    paused_until: float = -math.inf
    waits_for_room_of: Link | None = None
