"""What a partition shows of itself, for whoever looks without a message (`Actor.show`).

    log        start, end, size, segments, damage, what was appended
    delays     the messages that wait, and when the next one is due
    ledgers    for each group: its progress, lag, lanes, deliveries under way

All of it is the partition's own state, read between its turns and never changed: to look costs the partition
nothing, and what is seen is as new as the last turn. A reader may read the log through the board; it looks at many
partitions in slices (storage/slices.py).
"""

from dataclasses import dataclass

from goqueue.actors.delays.pending import DelayedMessages
from goqueue.actors.delivery.board import LedgerBoard
from goqueue.actors.runtime.ref import ActorRef
from goqueue.errors import StorageError
from goqueue.storage.log.log import Log
from goqueue.storage.log.scan import Damage


@dataclass(frozen=True, eq=False, slots=True)
class PartitionBoard:
    log: Log
    delays: DelayedMessages
    ledgers: LedgerBoard

    async def damage(self) -> tuple[Damage, ...]:
        """The damage that is there now: it may have been repaired since it was met."""
        return await self.log.look_at_damage() if self.log.damage_met else ()


@dataclass(frozen=True, eq=False, slots=True)
class UnavailableBoard:
    """Shown in place of a partition that could not be opened."""

    reason: StorageError

    def error(self) -> StorageError:
        """A new one each time: whoever raises it adds a traceback."""
        return type(self.reason)(self.reason.message, **self.reason.details)


async def board_of(partition: ActorRef) -> PartitionBoard:
    """The board of a partition. One that is being started is waited for; one that cannot be opened raises why."""
    board = await partition.shown()
    if isinstance(board, UnavailableBoard):
        raise board.error()
    assert isinstance(board, PartitionBoard), "a partition shows this before it is live"
    return board
