"""fdatasync without a thread of ours: the kernel's own workers do it, and an eventfd says when.

A thread costs a publish with acks=all about 0.2 ms of processor time for the way there and back, and when the event
loop is busy it waits for Python's lock once more on its return. Linux takes a sync as an asynchronous request
(`io_submit` with IOCB_CMD_FDSYNC, since 4.18), and containers allow it where they forbid io_uring. There is no
library for these four system calls; where one of them is refused, or on another system, a thread does the work.

Layouts as in <linux/aio_abi.h>:

    struct iocb      u64 data, u32 key, u32 rw_flags, u16 opcode, s16 priority, u32 descriptor,
                     u64 buffer, u64 bytes, s64 offset, u64 reserved, u32 flags, u32 result_descriptor
    struct io_event  u64 data, u64 iocb, s64 result, s64 result2
"""

import ctypes
import os
import platform
import sys
from contextlib import suppress
from struct import Struct

import trio

_REQUEST, _EVENT = Struct("=QIIHhIQQqQII"), Struct("=QQqq")
FDSYNC, HAS_RESULT_DESCRIPTOR = 3, 1
_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""Of io_setup, io_destroy, io_getevents and io_submit. Little-endian machines have the layouts above."""


class Refused(Exception):
    """The system does not take such requests, or not now: sync in another way. Nothing was begun."""


class _Slot:
    """For one sync at a time: who waits for it waits for this slot's descriptor, and finds its own result alone."""

    def __init__(self, calls: "_Calls") -> None:
        self._calls = calls
        self._signal = _eventfd()
        try:
            self._context = calls.set_up()
        except Refused:
            os.close(self._signal)
            raise
        self._request = ctypes.create_string_buffer(_REQUEST.size)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._event = ctypes.create_string_buffer(_EVENT.size)

    async def sync(self, descriptor: int) -> None:
        _REQUEST.pack_into(
            self._request, 0, 0, 0, 0, FDSYNC, 0, descriptor, 0, 0, 0, 0, HAS_RESULT_DESCRIPTOR, self._signal
        )
        self._calls.submit(self._context, self._requests)
        try:
            await trio.lowlevel.wait_readable(self._signal)
        except trio.Cancelled:  # nothing stops a sync, and the slot is its until it ends
            with trio.CancelScope(shield=True):
                await trio.lowlevel.wait_readable(self._signal)
        os.eventfd_read(self._signal)
        self._calls.take_event(self._context, self._event)
        _, _, result, _ = _EVENT.unpack(self._event)
        if result < 0:
            raise OSError(-result, os.strerror(-result))

    def close(self) -> None:
        self._calls.destroy(self._context)
        os.close(self._signal)


def _eventfd() -> int:
    try:
        return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    except OSError as error:  # a thread needs no descriptor
        raise Refused(str(error)) from error


class _Calls:
    def __init__(self) -> None:
        numbers = _CALLS.get(platform.machine())
        if sys.platform != "linux" or sys.byteorder != "little" or numbers is None:
            raise Refused(f"not known on {sys.platform}, {platform.machine()}")
        self._setup, self._destroy, self._getevents, self._submit = numbers
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long

    def set_up(self) -> ctypes.c_ulong:
        context = ctypes.c_ulong(0)
        if self._syscall(self._setup, 1, ctypes.byref(context)) < 0:
            raise Refused(os.strerror(ctypes.get_errno()))
        return context

    def submit(self, context: ctypes.c_ulong, requests: "ctypes.Array[ctypes.c_void_p]") -> None:
        if self._syscall(self._submit, context, 1, requests) != 1:
            raise Refused(os.strerror(ctypes.get_errno()))

    def take_event(self, context: ctypes.c_ulong, event: "ctypes.Array[ctypes.c_char]") -> None:
        count = self._syscall(self._getevents, context, 1, 1, event, None)
        assert count == 1, "the signal comes when the event is there"

    def destroy(self, context: ctypes.c_ulong) -> None:
        self._syscall(self._destroy, context)


class KernelSync:
    """At most so many at once. Refused once, it is not tried again."""

    def __init__(self, most: int) -> None:
        self._places = most
        self._idle: list[_Slot] = []
        self._calls: _Calls | None = None
        with suppress(Refused):
            self._calls = _Calls()

    @property
    def is_known(self) -> bool:
        return self._calls is not None

    async def fdatasync(self, descriptor: int) -> None:
        """Return when it is done; `Refused` when it has to be done otherwise, OSError when it failed."""
        await trio.lowlevel.checkpoint_if_cancelled()
        slot = self._take_slot()
        try:
            await slot.sync(descriptor)
        except Refused:
            self._calls = None
            raise
        finally:
            self._idle.append(slot)

    def _take_slot(self) -> _Slot:
        if self._calls is None:
            raise Refused("the system does not take such requests")
        if self._idle:
            return self._idle.pop()
        if not self._places:
            raise Refused("too many are under way")
        slot = self._new_slot(self._calls)
        self._places -= 1
        return slot

    def _new_slot(self, calls: _Calls) -> _Slot:
        try:
            return _Slot(calls)
        except Refused:
            self._calls = None
            raise

    def close(self) -> None:
        """Those not in use; more work sets up others."""
        self._places += len(self._idle)
        while self._idle:
            self._idle.pop().close()
