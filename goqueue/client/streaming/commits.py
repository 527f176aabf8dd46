"""Commits of a stream's consumer: by hand, up to a message, or automatically, all handled messages every 5 seconds.

A partition is released only after `finish`: the next owner begins at the committed offset, so a commit that is
still under way would come too late, and its messages would go to two members.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import trio

from goqueue.client.consuming.delivery import LeasedMessage
from goqueue.client.consuming.membership import Membership
from goqueue.client.link.caller import Caller
from goqueue.client.streaming.inflight import InFlight
from goqueue.client.streaming.partition import Key, StreamPartition, moves_of, stream_of
from goqueue.errors import GoQueueError, InvalidMessage, StaleGeneration
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.groups import (
    AskOffsets,
    CommitOffsets,
    CommitPartition,
    GroupOffset,
    GroupOffsets,
    OffsetsCommitted,
    ReceivePartition,
)
from goqueue.types import Offset

AnswerT = TypeVar("AnswerT")


class Commits:
    def __init__(self, client: Caller, group: str, membership: Membership) -> None:
        self._client = client
        self._group = group
        self._membership = membership
        self._turn = trio.Lock()
        """One commit at a time, so that a repeat never undoes a newer one."""

    async def commit(
        self, wanted: Callable[[], Mapping[StreamPartition, Offset]]
    ) -> dict[StreamPartition, GoQueueError]:
        """Returns the refused ones. `wanted` is called under the lock; unchanged offsets are not sent."""
        async with self._turn:
            news = {stream: offset for stream, offset in wanted().items() if stream.committed != offset}
            return await self._commit(news) if news else {}

    async def _commit(self, news: Mapping[StreamPartition, Offset]) -> dict[StreamPartition, GoQueueError]:
        for stream, offset in news.items():
            stream.sent = offset
        asked = tuple(CommitPartition(*stream.assigned[1:], offset) for stream, offset in news.items())
        who = self._membership
        request = CommitOffsets(self._group, who.member, who.generation, asked, who.instance)
        answer = await self._client.call(request, OffsetsCommitted)
        refused: dict[StreamPartition, GoQueueError] = {}
        for (stream, offset), outcome in zip(news.items(), answer.partitions, strict=True):
            if outcome.error is None:
                stream.committed = offset
            else:
                refused[stream] = error_of(outcome.error)
        return refused

    async def ask(self, streams: Sequence[StreamPartition]) -> list[GroupOffset | GoQueueError]:
        """The committed offset of each of them."""
        async with self._turn:
            asked = tuple(ReceivePartition(*stream.assigned[1:]) for stream in streams)
            answer = await self._client.call(AskOffsets(self._group, asked), GroupOffsets)
        return [each if each.error is None else error_of(each.error) for each in answer.partitions]


def first_error(refused: Iterable[GoQueueError]) -> GoQueueError | None:
    return next(iter(refused), None)


logger = logging.getLogger("goqueue.client")

AUTO_COMMIT_SECONDS = 5.0
STALE_SECONDS_MAX, STALE_PAUSE_SECONDS = 5.0, 0.25
"""Limit of the wait for a broker that does not know this member, and the pause between two tries."""

Places = Mapping[StreamPartition, Offset]


class Committing:
    def __init__(
        self,
        streams: Mapping[Key, StreamPartition],
        commits: Commits,
        in_flight: InFlight,
        on_doubt: Callable[[], None],
    ) -> None:
        """`streams` are those of the consumer; `on_doubt` is called when some have to be asked for anew."""
        self._streams = streams
        self._commits = commits
        self._in_flight = in_flight
        self._on_doubt = on_doubt
        self._under_way: Counter[StreamPartition] = Counter()
        """Commits by hand that have not ended."""
        self._one_ended = trio.Event()
        self._gone: set[Key] = set()
        """Released partitions with messages that were handed out and not committed. `commit()` names them once."""

    async def commit(self, message: LeasedMessage | None) -> None:
        """By hand: up to this message, or everything that was handed out."""
        if message is not None:
            await self._commit_by_hand({self._stream_with(message): message.offset + 1})
            return
        await self._commit_by_hand(self._in_flight.handed_out())
        gone, self._gone = sorted(self._gone), set()
        if gone:
            raise _all_gone(gone)

    async def _commit_by_hand(self, wanted: Places) -> None:
        with self._noted(wanted):
            self._in_flight.commit_by_hand(wanted)
            await self._commit_all(wanted)

    @contextmanager
    def _noted(self, wanted: Places) -> Iterator[None]:
        streams = list(wanted)
        self._under_way.update(streams)
        try:
            yield
        finally:
            self._under_way -= Counter(streams)
            self._one_ended.set()
            self._one_ended = trio.Event()

    async def _commit_all(self, wanted: Places) -> None:
        moves = {stream: stream.moves for stream in wanted}
        deadline = trio.current_time() + STALE_SECONDS_MAX
        while wanted := await self._rest_of(wanted, is_last=trio.current_time() >= deadline):
            await trio.sleep(STALE_PAUSE_SECONDS)
            for stream, before in moves.items():
                if stream.moves != before or self._streams.get(stream.key) is not stream:
                    raise _stale(stream)

    async def _rest_of(self, wanted: Places, *, is_last: bool) -> Places:
        """Commit these. Returns those to try again. A broker that was restarted knows owners a moment later, and a
        partition that another member may have had is not committed until that is known."""
        doubtful = {stream: place for stream, place in wanted.items() if stream.is_doubtful}
        certain = {stream: place for stream, place in wanted.items() if stream not in doubtful}
        refused = await self._commits.commit(lambda: certain)
        self._doubt_stale(refused)
        for stream, error in refused.items():
            if is_last or stream.is_leaving or not isinstance(error, StaleGeneration):
                raise error
        if doubtful and is_last:
            raise _stale(next(iter(doubtful)))
        return {**doubtful, **{stream: certain[stream] for stream in refused}}

    def _stream_with(self, message: object) -> StreamPartition:
        stream = stream_of(message)
        if stream is None:
            raise InvalidMessage(f"{message!r} is not of a stream; commit what this consumer handed out")
        if self._streams.get(stream.key) is not stream:
            raise _stale(stream)
        if moves_of(message) != stream.moves:
            raise StaleGeneration(f"{stream!r} was moved by others since, and goes on from there; commit nothing")
        return stream

    async def run(self) -> None:
        while True:
            await trio.sleep(AUTO_COMMIT_SECONDS)
            await self.commit_handled(self._streams.values())

    async def finish(self, streams: Iterable[StreamPartition], *, by_itself: bool, patience: float = 0.0) -> None:
        """Before these are released: wait for the commits under way, and with auto-commit commit all handled
        messages. A partition that does not know its owner just now is tried again for `patience` seconds."""
        concerned = list(streams)
        await self._until_ended(concerned)
        if by_itself:
            await self._commit_patiently(concerned, patience)
            await self._until_ended(concerned)

    async def _until_ended(self, streams: Sequence[StreamPartition]) -> None:
        while any(stream in self._under_way for stream in streams):
            await self._one_ended.wait()

    def note_released(self, streams: Iterable[StreamPartition]) -> None:
        self._gone.update(stream.key for stream in streams if stream.is_owed)

    async def commit_handled(self, streams: Iterable[StreamPartition]) -> None:
        """Errors are logged: messages that are not committed are read again."""
        await self._commit_patiently(list(streams), 0.0)

    async def _commit_patiently(self, streams: Sequence[StreamPartition], patience: float) -> None:
        deadline = trio.current_time() + patience
        try:
            refused = await self._commit_once(streams)
            while trio.current_time() < deadline and _may_be_taken_later(streams, refused):
                await trio.sleep(STALE_PAUSE_SECONDS)
                refused = await self._commit_once(streams)
        except GoQueueError as error:
            logger.warning("what was handled is not committed and may come again: %s", error.message)
            return
        for stream, why in refused.items():
            logger.warning("what was handled of %r is not committed and comes again: %s", stream, why.message)

    async def _commit_once(self, streams: Sequence[StreamPartition]) -> dict[StreamPartition, GoQueueError]:
        refused = await self._commits.commit(lambda: self._in_flight.handled(streams))
        self._doubt_stale(refused)
        return refused

    def _doubt_stale(self, refused: Mapping[StreamPartition, GoQueueError]) -> None:
        for stream, error in refused.items():
            if isinstance(error, StaleGeneration):
                stream.is_known = False
        self._on_doubt()


def _may_be_taken_later(
    streams: Sequence[StreamPartition], refused: Mapping[StreamPartition, GoQueueError]
) -> bool:
    is_refused_for_now = any(isinstance(each, StaleGeneration) or each.retryable for each in refused.values())
    return is_refused_for_now or any(stream.is_doubtful for stream in streams)


def _all_gone(gone: Sequence[Key]) -> StaleGeneration:
    names = ", ".join(f"{topic}/{number}" for topic, number in gone)
    return StaleGeneration(
        f"{names} went to other members before all that was handed out was committed, and comes again there; the "
        "other partitions are committed",
        partitions=[list(key) for key in gone],
    )


def _stale(stream: StreamPartition) -> StaleGeneration:
    return StaleGeneration(f"{stream!r} has gone to another member, and its messages come again there")
