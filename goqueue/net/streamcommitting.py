"""How far a stream's consumer is: said by hand, up to a message, or by itself, what is handled, each 5 seconds."""

import logging
from collections.abc import Callable, Iterable, Mapping

import trio

from goqueue.errors import GoQueueError, InvalidMessage, StaleGeneration
from goqueue.net.delivery import Delivered
from goqueue.net.streamcommits import Commits
from goqueue.net.streamhands import Hands
from goqueue.net.streampartition import Key, StreamPartition, moves_of, stream_of
from goqueue.types import Offset

logger = logging.getLogger("goqueue.client")

AUTO_COMMIT_SECONDS = 5.0
STALE_SECONDS_MAX, STALE_PAUSE_SECONDS = 5.0, 0.25
"""So long a commit waits for a broker that does not know this member, and between two tries."""

Places = Mapping[StreamPartition, Offset]


class Committing:
    def __init__(
        self,
        streams: Mapping[Key, StreamPartition],
        commits: Commits,
        hands: Hands,
        on_doubt: Callable[[], None],
    ) -> None:
        """`streams` are those that the consumer has; `on_doubt` hears that some have to be asked for anew."""
        self._streams = streams
        self._commits = commits
        self._hands = hands
        self._on_doubt = on_doubt

    async def commit(self, message: Delivered | None) -> None:
        """By hand: up to this message, or all that was handed out."""
        wanted: Places = (
            self._hands.handed_out() if message is None else {self._stream_with(message): message.offset + 1}
        )
        self._hands.commit_by_hand(wanted)
        moves = {stream: stream.moves for stream in wanted}
        deadline = trio.current_time() + STALE_SECONDS_MAX
        while wanted := await self._rest_of(wanted, is_last=trio.current_time() >= deadline):
            await trio.sleep(STALE_PAUSE_SECONDS)
            for stream, before in moves.items():
                if stream.moves != before or self._streams.get(stream.key) is not stream:
                    raise _stale(stream)

    async def _rest_of(self, wanted: Places, *, is_last: bool) -> Places:
        """Commit these; what is to be tried again. A broker that was restarted knows owners a moment later, and
        until it is known that nobody else had a partition nothing is said of it."""
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

    async def commit_handled(self, streams: Iterable[StreamPartition]) -> None:
        """Whatever hinders it is said in the log: what is not committed comes again."""
        concerned = list(streams)
        try:
            refused = await self._commits.commit(lambda: self._hands.handled(concerned))
        except GoQueueError as error:
            logger.warning("what was handled is not committed and may come again: %s", error.message)
            return
        for stream, why in refused.items():
            logger.warning("what was handled of %r is not committed and comes again: %s", stream, why.message)
        self._doubt_stale(refused)

    def _doubt_stale(self, refused: Mapping[StreamPartition, GoQueueError]) -> None:
        for stream, error in refused.items():
            if isinstance(error, StaleGeneration):
                stream.is_known = False
        self._on_doubt()


def _stale(stream: StreamPartition) -> StaleGeneration:
    return StaleGeneration(f"{stream!r} has gone to another member, and its messages come again there")
