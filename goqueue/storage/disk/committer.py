"""The committer: the only part of a node that fsyncs files that grow.

Callers name files and folders and wait. Calls that come during a round share the next one, so a thousand appends
cost a few syncs (group commit), and the files of a round sync concurrently. A call is answered by a round that
began after it: what was written before the call is durable when it returns.

A round that begins while nothing else is under way is led by its caller, in the caller's own task: that is every
publish with acks=all on a quiet node, and the way to the committer's task and back would cost it two turns of the
event loop. A leader that is cancelled hears what came of its round all the same, as nothing stops a sync.

A failure of any kind reaches exactly the callers whose file failed. The system reports a failed sync only once and
then calls the file sound, so the failure of a file whose callers were all cancelled is kept for the next caller. A
file that nobody waits for any more is not synced: the cancelled callers may have closed it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import trio

from goqueue.environment import Disk, File, SyncTarget
from goqueue.errors import Closed, TooManyFiles
from goqueue.storage.disk.syncing import sync_one


@dataclass(slots=True)
class Round:
    # Dicts keep the order of the calls: a simulated run must not depend on the order of hashes.
    callers: dict[SyncTarget, int] = field(default_factory=dict)
    failures: dict[SyncTarget, Exception] = field(default_factory=dict)
    done: trio.Event = field(default_factory=trio.Event)
    abandoned: bool = False

    def count_callers(self, targets: Iterable[SyncTarget], change: int) -> None:
        for target in targets:
            self.callers[target] = self.callers.get(target, 0) + change


class Committer:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._gathering = Round()
        self._work = trio.Event()
        self._is_syncing = False
        self._unheard: dict[SyncTarget, Exception] = {}
        self._stopped = False
        self.rounds = 0
        self.syncs = 0
        self.errors = 0

    async def sync(self, files: Sequence[File] = (), directories: Sequence[str] = ()) -> None:
        """Return once these are durable as they are now; raise the first failure of one of them."""
        if self._stopped:
            raise Closed("the committer has stopped; nothing more can be made durable")
        current = self._gathering
        targets: list[SyncTarget] = [*files, *directories]
        if not targets:
            return  # no round would be begun for it
        self._raise_first(self._unheard, targets)
        current.count_callers(targets, 1)
        try:
            await self._see_to(current)
        finally:
            current.count_callers(targets, -1)
        if current.abandoned:
            raise Closed("the committer stopped before this was durable")
        self._raise_first(current.failures, targets)

    async def _see_to(self, current: Round) -> None:
        if self._is_syncing or self._work.is_set():
            await current.done.wait()
        else:
            await self._lead()

    async def _lead(self) -> None:
        """Sync the gathered round, and let `run` do the next if calls came meanwhile."""
        current, self._gathering = self._gathering, Round()
        self._is_syncing = True
        try:
            await self._sync_round(current)
        except BaseException:
            current.abandoned = True
            raise
        finally:
            self._is_syncing = False
            current.done.set()
            if self._gathering.callers:
                self._work.set()

    def _raise_first(self, failures: dict[SyncTarget, Exception], targets: Iterable[SyncTarget]) -> None:
        found = {target: failures[target] for target in targets if target in failures}
        for target in found:
            self._unheard.pop(target, None)
        for failure in sorted(found.values(), key=_is_harmless):
            raise failure

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sync round after round, until cancelled."""
        task_status.started()
        try:
            while True:
                await self._work.wait()
                self._work = trio.Event()
                await self._lead()
        finally:
            self._stopped = True
            self._gathering.abandoned = True
            self._gathering.done.set()

    async def _sync_round(self, current: Round) -> None:
        self.rounds += 1
        if len(current.callers) == 1:  # the common case; it saves two turns of the event loop
            await self._sync(current, *current.callers)
            return
        wanted = [target for target, callers in current.callers.items() if callers]
        self.syncs += len(wanted)
        current.failures = await self._disk.sync_all(wanted)
        self._unheard |= current.failures
        self.errors += len(current.failures)

    async def _sync(self, current: Round, target: SyncTarget) -> None:
        if not current.callers[target]:
            return
        self.syncs += 1
        try:
            await sync_one(self._disk, target)
        except Exception as error:
            current.failures[target] = self._unheard[target] = error
            self.errors += 1


def _is_harmless(failure: Exception) -> bool:
    """The sync may be tried again. Such a failure must not hide one that is final."""
    return isinstance(failure, TooManyFiles)
