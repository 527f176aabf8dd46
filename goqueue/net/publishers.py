"""The producers behind `client.publish`: one for each topic and kind of acks, kept ready while it is used."""

from typing import TYPE_CHECKING

import trio

from goqueue.net.producer import Producer
from goqueue.types import Acks

if TYPE_CHECKING:
    from goqueue.net.client import Client

READY_MAX = 256


class Publishers:
    def __init__(self, client: "Client") -> None:
        self._client = client
        self._ready: dict[tuple[str, Acks], Producer] = {}
        self._opening: dict[tuple[str, Acks], trio.Event] = {}

    async def to(self, topic: str, acks: Acks) -> Producer:
        """It never lingers. Those who ask while it is being opened wait for that one."""
        key = topic, acks
        while (publisher := self._ready.get(key)) is None:
            if key in self._opening:
                await self._opening[key].wait()
            else:
                await self._open(key)
        return publisher

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
        """It was deleted. What is under way hears of that by itself, or goes to the one that was made again."""
        for acks in Acks:
            publisher = self._ready.pop((topic, acks), None)
            if publisher is not None:
                self._client.spawn(publisher.retire)

    def _forget_an_idle_one(self) -> None:
        if len(self._ready) > READY_MAX:
            idle = next((key for key, publisher in self._ready.items() if publisher.is_idle), None)
            if idle is not None:
                self._ready.pop(idle).stop()
