"""The producers behind `client.publish`: one for each topic and kind of acks, kept ready while it is used.

They give up after the 30 s of a publish. Calls with a longer time limit have producers of their own.
"""

from typing import NamedTuple

import trio

from goqueue.client.link.caller import Caller
from goqueue.client.producing.producer import Producer
from goqueue.client.producing.timelimit import PUBLISH_SECONDS, TIMEOUT_SECONDS_MAX, TimeLimit
from goqueue.errors import DeliveryTimeout, Unavailable
from goqueue.types import Acks

READY_MAX = 256
PAUSE_SECONDS = 0.1
"""The pause before a broker that could not answer is asked again."""


class PublisherKey(NamedTuple):
    topic: str
    acks: Acks
    is_patient: bool
    """For calls that wait longer than a publish does by itself."""


class Publishers:
    def __init__(self, client: Caller) -> None:
        self._client = client
        self._ready: dict[PublisherKey, Producer] = {}
        self._opening: dict[PublisherKey, trio.Event] = {}

    def ready(self, topic: str, acks: Acks, *, is_patient: bool = False) -> Producer | None:
        return self._ready.get(PublisherKey(topic, acks, is_patient))

    async def to(self, topic: str, acks: Acks, limit: TimeLimit) -> Producer:
        """The producer never lingers. It waits for a broker that is away as long as the publish may take."""
        key = PublisherKey(topic, acks, limit.seconds > PUBLISH_SECONDS)
        with trio.CancelScope(deadline=limit.ends_at):
            while key not in self._ready:
                await self._try_to_open(key)
            return self._ready[key]
        reason = self._client.why_away
        raise DeliveryTimeout(
            f"not sent within {limit.seconds:g} s; it was not written, send it again; {reason}",
            reason=reason,
            last_error=Unavailable.code,
        )

    async def _try_to_open(self, key: PublisherKey) -> None:
        """Calls that come while it is being opened wait for it."""
        if key in self._opening:
            await self._opening[key].wait()
            return
        try:
            await self._open(key)
        except Unavailable as error:
            if not error.retryable:
                raise
            await trio.sleep(PAUSE_SECONDS)

    async def _open(self, key: PublisherKey) -> None:
        opened = self._opening[key] = trio.Event()
        try:
            seconds = TIMEOUT_SECONDS_MAX if key.is_patient else PUBLISH_SECONDS
            publisher = Producer(self._client, key.topic, acks=key.acks, linger_ms=0, delivery_timeout=seconds)
            sender = await publisher.open()
        finally:
            del self._opening[key]
            opened.set()
        self._ready[key] = publisher
        self._client.spawn(sender.run)
        self._forget_an_idle_one()

    def forget(self, topic: str) -> None:
        """The topic was deleted. Messages under way fail, or go to the topic that was created again."""
        for key in [key for key in self._ready if key.topic == topic]:
            self._client.spawn(self._ready.pop(key).retire)

    def _forget_an_idle_one(self) -> None:
        if len(self._ready) > READY_MAX:
            idle = next((key for key, publisher in self._ready.items() if publisher.is_idle), None)
            if idle is not None:
                self._ready.pop(idle).stop()
