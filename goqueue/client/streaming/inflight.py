"""The state of a stream's messages: not handed out yet, in work, or handled.

A program in the thread of Trio takes messages from their partitions. For a program in another thread there is a
buffer in between, with some hundred at a time: it hands them out one by one, and they can be taken back from it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import trio

from goqueue.client.streaming.partition import Key, StreamPartition, stream_of
from goqueue.types import Offset

LOOK_SECONDS = 0.1
"""The time between two looks at the work of a program in another thread."""


class Elsewhere(Protocol):
    """The buffer of messages for a program in another thread."""

    def in_hand(self) -> list[Any]:
        """The messages in the buffer and those in work."""
        ...

    def at_work(self) -> list[Any]: ...

    def end_work(self, is_done: Callable[[Any], bool]) -> None: ...

    def withdraw(self, is_wanted: Callable[[Any], bool]) -> list[Any]: ...


class _Nowhere:
    def in_hand(self) -> list[Any]:
        return []

    at_work = in_hand

    def end_work(self, is_done: Callable[[Any], bool]) -> None:
        pass

    def withdraw(self, is_wanted: Callable[[Any], bool]) -> list[Any]:  # noqa: ARG002
        return []


class InFlight:
    def __init__(self, streams: Mapping[Key, StreamPartition], on_step_back: Callable[[], None]) -> None:
        """`streams` are those that the consumer has, at any time."""
        self._streams = streams
        self._on_step_back = on_step_back
        self.elsewhere: Elsewhere = _Nowhere()
        self._handled = trio.Event()
        self._awaited = 0

    def end_work(self) -> None:
        """The program has asked for more. Messages in the buffer were not handed out yet, and come first."""
        for stream in self._streams.values():
            stream.work_from = None
        if self._lie_elsewhere:
            self.elsewhere.end_work(lambda _: True)
            self.withdraw(self._streams.values())
        if self._awaited:
            self._handled.set()
            self._handled = trio.Event()

    def commit_by_hand(self, wanted: Mapping[StreamPartition, Offset]) -> None:
        """The program says that everything below is handled; if that is backwards, nothing else that it has is."""
        firsts, handed_out = _firsts(self.elsewhere.in_hand()), self.handed_out()
        for stream, to in wanted.items():
            if to < firsts.get(stream, stream.handled or 0):
                stream.stand(to, handed_out[stream])
            else:
                stream.end_work(to)
        self.elsewhere.end_work(lambda each: _is_below(each, wanted))

    @property
    def is_nobody_waiting(self) -> bool:
        """Nothing waits for handled messages, and there is no buffer for another thread."""
        return not self._awaited and not self._lie_elsewhere

    @property
    def _lie_elsewhere(self) -> bool:
        return not isinstance(self.elsewhere, _Nowhere)

    def withdraw(self, streams: Iterable[StreamPartition]) -> None:
        """Take messages of these that were not handed out back from the buffer."""
        concerned = set(streams)
        self.take_back(self.elsewhere.withdraw(lambda each: stream_of(each) in concerned))

    def move(self, stream: StreamPartition, offset: Offset) -> None:
        """Go on there. Messages in work, here or in another thread, are no longer tracked."""
        self.elsewhere.end_work(lambda each: stream_of(each) is stream)
        self.withdraw([stream])
        stream.move_to(offset)

    def take_back(self, messages: Sequence[Any]) -> None:
        """These messages did not reach the program, and are read again."""
        for message in reversed(messages):
            stream = stream_of(message)
            if stream is not None and self._streams.get(stream.key) is stream:
                stream.step_back(message.offset)
        if messages:
            self._on_step_back()

    async def until_handled(self, streams: Sequence[StreamPartition]) -> None:
        patience = LOOK_SECONDS if self._lie_elsewhere else math.inf
        self._awaited += 1
        try:
            while self._are_in_work(streams):
                with trio.move_on_after(patience):
                    await self._handled.wait()
        finally:
            self._awaited -= 1

    def _are_in_work(self, streams: Sequence[StreamPartition]) -> bool:
        is_worked_on = any(stream_of(message) in streams for message in self.elsewhere.at_work())
        return is_worked_on or any(stream.work_from is not None for stream in streams)

    def handled(self, streams: Iterable[StreamPartition]) -> dict[StreamPartition, Offset]:
        """The offset up to which each known partition is handled."""
        firsts = _firsts(self.elsewhere.in_hand())
        places = {stream: firsts.get(stream, stream.handled) for stream in streams if stream.is_known}
        return {stream: stream.to_commit(place) for stream, place in places.items() if place is not None}

    def handed_out(self) -> dict[StreamPartition, Offset]:
        """The offset up to which each was handed out, without messages in the buffer for another thread."""
        places = {stream: stream.position for stream in self._streams.values()}
        at_work = {(stream_of(each), each.offset) for each in self.elsewhere.at_work()}
        for stream, first in _firsts(self.elsewhere.in_hand()).items():
            places[stream] = first + ((stream, first) in at_work)
        return {stream: place for stream, place in places.items() if place is not None}


def _is_below(message: Any, places: Mapping[StreamPartition, Offset]) -> bool:
    stream = stream_of(message)
    return stream is not None and message.offset < places.get(stream, 0)


def _firsts(messages: Iterable[Any]) -> dict[StreamPartition, Offset]:
    """The first message of each partition."""
    firsts: dict[StreamPartition, Offset] = {}
    for message in messages:
        stream = stream_of(message)
        if stream is not None:
            firsts[stream] = min(message.offset, firsts.get(stream, message.offset))
    return firsts
