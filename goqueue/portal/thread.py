"""The thread that runs Trio for programs that do not.

There is one in each process, shared by all clients: started by the first that opens, ended when the last has
closed, so that nothing runs on. When a program ends without closing its clients, they are closed at its exit.

Threads do not survive a fork. A client that was opened before is of no use in the child, and says so; a client that
is opened in the child gets a thread there.
"""

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakSet

import trio

from goqueue.errors import Closed
from goqueue.portal.call import Call

EXIT_SECONDS_MAX = 10.0


class TrioThread:
    def __init__(
        self, name: str, clock: trio.abc.Clock | None = None, on_told: Callable[[], object] | None = None
    ) -> None:
        """`on_told` is called in each thread that is about to tell this one something."""
        self._clock = clock
        self._on_told = on_told
        self._pid = os.getpid()
        self._ready = threading.Event()
        self._failure: OSError | None = None
        self._unsettled: set[Call[Any]] = set()
        self._soon: deque[Callable[[], object]] = deque()
        self._is_woken = self._has_ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()
        try:
            self._ready.wait()
        except BaseException:  # Ctrl-C
            self.stop()
            raise
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            trio.run(self._main, clock=self._clock)
        except OSError as error:
            self._failure = error  # no descriptor left for its event loop, say
        finally:
            self._has_ended = True
            self._ready.set()
            while self._unsettled:
                self._unsettled.pop().fail(Closed("goqueue's thread has ended"))

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stopping = trio.Event()
        async with trio.open_nursery() as self.nursery:
            self._ready.set()
            await self._stopping.wait()
            self.nursery.cancel_scope.cancel()

    def begin(self, call: Call[Any], start: Callable[[], object]) -> None:
        """Let the Trio thread run `start`, which never raises. The call is settled in any case."""
        self._check_usable()
        call.unsettled = self._unsettled
        self._unsettled.add(call)
        with suppress(trio.RunFinishedError):
            self._run_soon(start)
        if self._has_ended:  # looked at last: from its end on nobody settles the calls that come
            self._unsettled.discard(call)
            raise Closed("the client is closed, and with it goqueue's thread")

    def give_up(self, call: Call[Any]) -> None:
        """The caller no longer waits: cancel the call."""
        self._unsettled.discard(call)
        self.tell(call.scope.cancel)

    def tell(self, what: Callable[[], object]) -> None:
        """Let the Trio thread run this, which never raises, without waiting. After its end it does nothing."""
        if not self.is_lost:
            with suppress(trio.RunFinishedError):
                self._run_soon(what)

    def _run_soon(self, what: Callable[[], object]) -> None:
        """One wake-up serves all that comes before the thread looks: each costs changes of threads."""
        if self._on_told is not None:
            self._on_told()
        self._soon.append(what)
        if not self._is_woken:
            self._is_woken = True
            try:
                self._token.run_sync_soon(self._run_all)
            except BaseException:  # Ctrl-C, or the thread has ended: the next one wakes it
                self._is_woken = False
                raise

    def _run_all(self) -> None:
        """What comes meanwhile wakes the thread again, so that other tasks have their turn."""
        self._is_woken = False
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def _check_usable(self) -> None:
        if self.is_lost:
            raise Closed("this was opened before the process forked: it is the parent's; connect anew in the child")
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError("called in goqueue's own thread, which would wait for itself")

    @property
    def is_lost(self) -> bool:
        """This is a child of the process that has the thread."""
        return os.getpid() != self._pid

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self, seconds_max: float | None = None) -> None:
        """Cancel everything that runs there, and wait for its end."""
        self._ready.wait(seconds_max)
        if self._failure is None:
            self.tell(self._stopping.set)
        self._thread.join(seconds_max)


class _Shared:
    """The thread of this process, and the number of its users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: TrioThread | None = None
        self._users = 0

    def borrow(self) -> TrioThread:
        with self._lock:
            if self._thread is None:
                thread = TrioThread("goqueue")
                thread.start()
                self._thread = thread
            self._users += 1
            return self._thread

    def give_back(self, thread: TrioThread) -> None:
        """The last user ends the thread."""
        with self._lock:
            if thread is self._thread:
                self._users -= 1
                if not self._users:
                    self._thread = None
                    thread.stop()

    def end(self) -> None:
        with self._lock:
            thread, self._thread, self._users = self._thread, None, 0
        if thread is not None:
            thread.stop(EXIT_SECONDS_MAX)

    def begin_anew(self) -> None:
        """In a child: a thread of the parent may have held the lock."""
        self.__init__()  # type: ignore[misc]
        for each in list(emptied_in_children):
            each.clear()


class Clearable(Protocol):
    def clear(self) -> None: ...


new_lock = threading.Lock
"""A lock for state that Trio's thread shares with others; held for a moment."""


def start_thread(work: Callable[[], object], name: str) -> None:
    """A thread that does not keep the process alive."""
    threading.Thread(target=work, name=name, daemon=True).start()


emptied_in_children: "WeakSet[Clearable]" = WeakSet()
"""Cleared in a child: what was fetched belongs to the parent."""

_shared = _Shared()
borrow, give_back = _shared.borrow, _shared.give_back
atexit.register(_shared.end)
os.register_at_fork(after_in_child=_shared.begin_anew)
