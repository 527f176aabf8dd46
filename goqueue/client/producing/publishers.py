"""The producers behind `client.publish`: one for each topic and kind of acks, kept ready while it is used."""

from typing import TYPE_CHECKING

import trio

from goqueue.client.link.caller import Caller
from goqueue.client.producing.producer import DELIVERY_SECONDS_MAX, Producer
from goqueue.errors import DeliveryTimeout, Unavailable
from goqueue.types import Acks

if TYPE_CHECKING:
    pass

READY_MAX = 256
PAUSE_SECONDS = 0.1
"""The pause before a broker that could not answer is asked again."""


class Publishers:
    def __init__(self, client: Caller) -> None:
        self._client = client
        self._ready: dict[tuple[str, Acks], Producer] = {}
        self._opening: dict[tuple[str, Acks], trio.Event] = {}

    def ready(self, topic: str, acks: Acks) -> Producer | None:
        return self._ready.get((topic, acks))

    async def to(self, topic: str, acks: Acks) -> Producer:
        """The producer never lingers. It waits for a broker that is away as long as a publish may take."""
        key = topic, acks
        if key in self._ready:
            return self._ready[key]
        with trio.move_on_after(DELIVERY_SECONDS_MAX):
            while key not in self._ready:
                await self._try_to_open(key)
            return self._ready[key]
        reason = self._client.why_away
        raise DeliveryTimeout(
            f"not sent within {DELIVERY_SECONDS_MAX:g} s; it was not written, send it again; {reason}",
            reason=reason,
            last_error=Unavailable.code,
        )

    async def _try_to_open(self, key: tuple[str, Acks]) -> None:
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

    async def _open(self, key: tuple[str, Acks]) -> None:
        opened = self._opening[key] = trio.Event()
        try:
            publisher = Producer(self._client, key[0], acks=key[1], linger_ms=0)
            sender = await publisher.open()
        finally:
            del self._opening[key]
            opened.set()
        self._ready[key] = publisher
        self._client.spawn(sender.run)
        self._forget_an_idle_one()

    def forget(self, topic: str) -> None:
        """The topic was deleted. Messages under way fail, or go to the topic that was created again."""
        for acks in Acks:
            publisher = self._ready.pop((topic, acks), None)
            if publisher is not None:
                self._client.spawn(publisher.retire)

    def _forget_an_idle_one(self) -> None:
        if len(self._ready) > READY_MAX:
            idle = next((key for key, publisher in self._ready.items() if publisher.is_idle), None)
            if idle is not None:
                self._ready.pop(idle).stop()
