"""Reading a topic with `async for`: batches cross from the Trio thread, messages do not."""

from types import TracebackType
from typing import Any

from goqueue.aio.asking import ask
from goqueue.client.reading.message import Message
from goqueue.client.reading.reader import Reader as TrioReader
from goqueue.portal.buffer import MessageBuffer
from goqueue.portal.host import Host


class Reader:
    """Made by `client.read`. Tasks that iterate over one reader share its messages."""

    def __init__(self, host: Host[Any], reader: TrioReader) -> None:
        self._host = host
        self._buffer = MessageBuffer(reader.next_batch)

    async def __aenter__(self) -> "Reader":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._buffer.close(self._host.thread)

    def __aiter__(self) -> "Reader":
        return self

    async def __anext__(self) -> Message:
        while True:
            try:
                return self._buffer.items.popleft()
            except IndexError:
                if not await ask(self._host, self._buffer.fill):
                    raise StopAsyncIteration from None

    async def next_batch(self) -> list[Message]:
        """As many as are at hand, at least one; [] at the end. Nothing is fetched while there are some."""
        while not (batch := self._buffer.take_all()):
            if not await ask(self._host, self._buffer.fill):
                break
        return batch
