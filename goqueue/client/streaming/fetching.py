"""Fetches for a stream's consumer: all partitions in one request, with a prefetch, each partition in order.

All partitions are in one long poll, so it never waits for one while another has messages. It is cancelled only when
the partitions to read, or their positions, have changed.
"""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import trio

from goqueue.client.link.caller import Caller
from goqueue.client.reading.prefetch import AskedAhead
from goqueue.client.streaming.partition import StreamOwner, StreamPartition, StreamSlice
from goqueue.errors import DamagedData, GoQueueError, OffsetOutOfRange, UnknownPartition, UnknownTopic
from goqueue.net.wire import messages as wire
from goqueue.net.wire.failures import PATIENCE_SECONDS, error_of, final
from goqueue.types import Offset

logger = logging.getLogger("goqueue.client")

WAIT_MS = 10_000
BYTES_MAX = 512 * 1024
PAUSE_SECONDS, REST_MS = 1.0, 1_000
"""The pause after a failure, and the limit of a long poll while a partition rests."""

AnswerT = TypeVar("AnswerT")


class Fetching:
    def __init__(
        self,
        client: Caller,
        streams: Callable[[], Iterable[StreamPartition]],
        bytes_max: int,
        on_news: Callable[[], None],
        on_failure: Callable[[GoQueueError], None],
    ) -> None:
        """`bytes_max`: limit of the prefetch; one answer more may come."""
        self._client = client
        self._streams = streams
        self._bytes_max = min(bytes_max, 2 * BYTES_MAX)
        self._on_news, self._on_failure = on_news, on_failure
        self._ahead = AskedAhead(client)
        self._changed = trio.Event()
        self._fetching = trio.CancelScope()

    def look_again(self) -> None:
        """Partitions or positions have changed: the current fetch is not wanted."""
        self._fetching.cancel()
        self._changed.set()

    def note_taken(self) -> None:
        """The program took messages: there is room for more."""
        self._changed.set()

    async def run(self, owner: StreamOwner) -> None:
        while True:
            self._changed = trio.Event()
            streams, has_resting = self._wanted()
            if not streams:
                with trio.move_on_after(PAUSE_SECONDS if has_resting else math.inf):
                    await self._changed.wait()
                continue
            with trio.CancelScope() as self._fetching:
                try:
                    await self._fetch(streams, owner, REST_MS if has_resting else WAIT_MS)
                except (UnknownTopic, UnknownPartition) as error:
                    logger.info("%s; waiting for the newest assignment", error.message)
                    await trio.sleep(PAUSE_SECONDS)
                except GoQueueError as error:
                    self._on_failure(error)
                    await trio.sleep(PAUSE_SECONDS)

    def _wanted(self) -> tuple[list[StreamPartition], bool]:
        """The partitions to fetch, none while the prefetch is full; and whether others rest."""
        readable = [stream for stream in self._streams() if stream.is_read and stream.trouble is None]
        streams = [stream for stream in readable if stream.rests_until <= trio.current_time()]
        has_room = sum(stream.bytes_ahead for stream in streams) < self._bytes_max
        return (streams if has_room else []), len(streams) < len(readable)

    async def _fetch(self, streams: Sequence[StreamPartition], owner: StreamOwner, wait_ms: int) -> None:
        request = _request(streams, owner, wait_ms)
        answer = await self._ahead.answer(request)
        if answer is None:
            answer = await self._client.call(request, wire.Fetched)
        failures: list[GoQueueError] = []
        for stream, question, found in zip(streams, request.partitions, answer.partitions, strict=True):
            if not stream.is_read or stream.fetch_at != question.offset:
                continue  # a seek, or released meanwhile
            if found.error is not None:
                failures += self._meet(stream, error_of(found.error), owner.group)
            else:
                self._add(stream, found, owner)
        self._ask_ahead(owner)
        self._on_news()
        if failures:
            self._on_failure(failures[0])

    def _ask_ahead(self, owner: StreamOwner) -> None:
        """Before the program is told: its work may take the processor for long."""
        streams, has_resting = self._wanted()
        if not has_resting and any(stream.is_behind for stream in streams):
            self._ahead.ask(_request(streams, owner, WAIT_MS))

    def _add(self, stream: StreamPartition, found: wire.FetchedPartition, owner: StreamOwner) -> None:
        assert stream.position is not None, "what is read has a place"
        begin = max(stream.position, stream.fetch_at)
        messages = StreamSlice(stream, owner, found.data).messages(begin, None, self._client.clock.now())
        stream.add(messages, found.next_offset, len(found.data))
        stream.is_behind, stream.fails_since = found.next_offset < found.high_watermark, None

    def _meet(self, stream: StreamPartition, error: GoQueueError, group: str) -> list[GoQueueError]:
        """The errors for waiting calls; none when reading goes on."""
        if isinstance(error, OffsetOutOfRange):
            return self._go_on(stream, error.details.get("start"), error.details.get("end"), error)
        if isinstance(error, DamagedData):
            _advise(error, group, stream)
            logger.error("%r cannot be read beyond %d: %s", stream, stream.fetch_at, error.message)
            stream.trouble = error
            return []
        return self._rest(stream, error)

    def _rest(self, stream: StreamPartition, error: GoQueueError) -> list[GoQueueError]:
        """The others go on without it. A partition that is restarted or deleted is no error for the program; a
        partition that stays away is."""
        now = trio.current_time()
        stream.rests_until = now + PAUSE_SECONDS
        stream.fails_since = now if stream.fails_since is None else stream.fails_since
        return [] if error.retryable and now < stream.fails_since + PATIENCE_SECONDS else [final(error)]

    def _go_on(
        self, stream: StreamPartition, start: object, end: object, error: GoQueueError
    ) -> list[GoQueueError]:
        """Retention removed messages; or confirmed messages are not durable yet, and will be in a moment."""
        if isinstance(start, int) and stream.fetch_at < start:
            logger.warning(
                "%r was removed up to offset %d before it was read to there; going on behind it", stream, start
            )
            stream.add(iter(()), Offset(start), 0)
            return []
        if isinstance(end, int) and stream.fetch_at > end:
            stream.fetch_at = Offset(end)
            return []
        return self._rest(stream, error)


def _advise(error: DamagedData, group: str, stream: StreamPartition) -> None:
    """A stream cannot skip damage by itself: an operator does it."""
    topic, partition, damaged = *stream.key, f"{error.offset}-{error.restart_at - 1}"
    error.message += f"; to go on without them: goqueue group skip {group} {topic}/{partition} {damaged}"
    error.args = (error.message,)


def _request(streams: Sequence[StreamPartition], owner: StreamOwner, wait_ms: int) -> wire.Fetch:
    asked = tuple([wire.FetchPartition(*stream.assigned[1:], 0, stream.fetch_at) for stream in streams])
    return wire.Fetch(wait_ms, BYTES_MAX, asked, owner.group, owner.member, owner.instance)
