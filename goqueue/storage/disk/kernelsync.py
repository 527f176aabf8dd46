"""fsync and fdatasync without a thread of ours: the kernel's own workers do it, and an eventfd says when.

A thread costs a publish with acks=all about 0.2 ms of processor time for the way there and back, and when the event
loop is busy it waits for Python's lock once more on its return. Linux takes a sync as an asynchronous request
(`io_submit` with IOCB_CMD_FDSYNC, since 4.18), and containers allow it where they forbid io_uring. One call takes
many syncs: a round of a thousand files costs a few calls. There is no library for these four system calls; where
one of them is refused, or on another system, a thread does the work.

Layouts as in <linux/aio_abi.h>:

    struct iocb      u64 data, u32 key, u32 rw_flags, u16 opcode, s16 priority, u32 descriptor,
                     u64 buffer, u64 bytes, s64 offset, u64 reserved, u32 flags, u32 result_descriptor
    struct io_event  u64 data, u64 iocb, s64 result, s64 result2
"""

import ctypes
import os
import platform
import sys
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import TypeAlias

import trio

_REQUEST, _EVENT = Struct("=QIIHhIQQqQII"), Struct("=QQqq")
FSYNC, FDSYNC, HAS_RESULT_DESCRIPTOR = 2, 3, 1
TOGETHER_MAX = 128
"""Maximum number of syncs in one request to the kernel."""
_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""The numbers of io_setup, io_destroy, io_getevents and io_submit. The layouts above are little-endian."""


Request: TypeAlias = tuple[int, int]
"""FSYNC or FDSYNC, and a descriptor."""
Result: TypeAlias = int | None
"""0 or an errno; None if the system did not take the request."""


class SyncRefused(Exception):
    """The system does not take such requests, or not now: sync in another way. Nothing was begun."""


class _Slot:
    """Serves one call at a time: the call waits for this slot's eventfd and finds only its own results."""

    def __init__(self, calls: "_Calls") -> None:
        self._calls = calls
        self._signal = _eventfd()
        try:
            self._context = calls.set_up(TOGETHER_MAX)
        except SyncRefused:
            os.close(self._signal)
            raise
        self._requests = ctypes.create_string_buffer(TOGETHER_MAX * _REQUEST.size)
        begin = ctypes.addressof(self._requests)
        self._row = (ctypes.c_void_p * TOGETHER_MAX)(*range(begin, begin + len(self._requests), _REQUEST.size))
        self._events = ctypes.create_string_buffer(TOGETHER_MAX * _EVENT.size)

    async def sync(self, wanted: Sequence[Request]) -> list[Result]:
        results: list[Result] = [None] * len(wanted)
        first = 0
        while count := self._submit(wanted, first):
            await self._gather(results, count)
            first += count
        return results

    def _submit(self, wanted: Sequence[Request], first: int) -> int:
        """The number of requests that the system has taken, from `first` on."""
        count = min(len(wanted) - first, TOGETHER_MAX)
        for place in range(count):
            operation, descriptor = wanted[first + place]
            _REQUEST.pack_into(
                self._requests,
                place * _REQUEST.size,
                *(first + place, 0, 0, operation, 0, descriptor, 0, 0, 0, 0, HAS_RESULT_DESCRIPTOR, self._signal),
            )
        return self._calls.submit(self._context, count, self._row) if count else 0

    async def _gather(self, results: list[Result], count: int) -> None:
        """The signal counts events, and may come after its event was taken."""
        while count:
            await self._wait_for_signal()
            taken = self._calls.take_events(self._context, count, self._events)
            for place in range(taken):
                number, _, result, _ = _EVENT.unpack_from(self._events, place * _EVENT.size)
                results[number] = -result
            count -= taken

    async def _wait_for_signal(self) -> None:
        try:
            await trio.lowlevel.wait_readable(self._signal)
        except trio.Cancelled:  # nothing stops a sync, and it keeps the slot until it ends
            with trio.CancelScope(shield=True):
                await trio.lowlevel.wait_readable(self._signal)
        os.eventfd_read(self._signal)

    def close(self) -> None:
        self._calls.destroy(self._context)
        os.close(self._signal)


def _eventfd() -> int:
    try:
        return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    except OSError as error:  # a thread needs no descriptor
        raise SyncRefused(str(error)) from error


class _Calls:
    def __init__(self) -> None:
        numbers = _CALLS.get(platform.machine())
        if sys.platform != "linux" or sys.byteorder != "little" or numbers is None:
            raise SyncRefused(f"not known on {sys.platform}, {platform.machine()}")
        self._setup, self._destroy, self._getevents, self._submit = numbers
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long

    def set_up(self, most: int) -> ctypes.c_ulong:
        context = ctypes.c_ulong(0)
        if self._syscall(self._setup, most, ctypes.byref(context)) < 0:
            raise SyncRefused(os.strerror(ctypes.get_errno()))
        return context

    def submit(self, context: ctypes.c_ulong, count: int, requests: "ctypes.Array[ctypes.c_void_p]") -> int:
        taken: int = self._syscall(self._submit, context, count, requests)
        return max(taken, 0)

    def take_events(self, context: ctypes.c_ulong, most: int, events: "ctypes.Array[ctypes.c_char]") -> int:
        """Take the events that have come, without waiting."""
        count: int = self._syscall(self._getevents, context, 0, min(most, TOGETHER_MAX), events, None)
        assert count >= 0, "the context is ours, and so is the row of events"
        return count

    def destroy(self, context: ctypes.c_ulong) -> None:
        self._syscall(self._destroy, context)


class KernelSync:
    """At most `most` calls at once. Once the system refuses, it is not tried again."""

    def __init__(self, most: int) -> None:
        self._places = most
        self._idle: list[_Slot] = []
        self._calls: _Calls | None = None
        with suppress(SyncRefused):
            self._calls = _Calls()

    @property
    def is_known(self) -> bool:
        return self._calls is not None

    async def fdatasync(self, descriptor: int) -> None:
        """Return when it is done; raise `SyncRefused` when a thread has to do it, OSError when it failed."""
        [result] = await self.sync_all([(FDSYNC, descriptor)])
        if result is None:
            self._calls = None
            raise SyncRefused("the system does not take such requests")
        if result:
            raise OSError(result, os.strerror(result))

    async def sync_all(self, wanted: Sequence[Request]) -> list[Result]:
        """Sync concurrently; the result of each, in order. `SyncRefused` when nothing was begun."""
        await trio.lowlevel.checkpoint_if_cancelled()
        slot = self._take_slot()
        try:
            return await slot.sync(wanted)
        finally:
            self._idle.append(slot)

    def _take_slot(self) -> _Slot:
        if self._calls is None:
            raise SyncRefused("the system does not take such requests")
        if self._idle:
            return self._idle.pop()
        if not self._places:
            raise SyncRefused("too many are under way")
        slot = self._new_slot(self._calls)
        self._places -= 1
        return slot

    def _new_slot(self, calls: _Calls) -> _Slot:
        try:
            return _Slot(calls)
        except SyncRefused:
            self._calls = None
            raise

    def close(self) -> None:
        """Close the slots that are not in use; more work sets up others."""
        self._places += len(self._idle)
        while self._idle:
            self._idle.pop().close()
