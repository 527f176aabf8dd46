"""Messages from other threads on their way into a producer: they cross in groups.

A message is checked in the thread that sends it and put into a queue, which takes a microsecond or two. Trio's
thread takes everything that is there. Messages that are alike in their options become one chunk, as in `send_many`.

    put         ─► queue ─► take_all ─► sender ─► call      each wakes Trio's thread, which takes all that came
    put_nowait  ─► queue ─► take_all ─► sender              the first wakes it, and it looks again after a pause
                                                            for as long as more have come

To wake the thread for each would cost two changes of threads for each. Order stays: every other call of the
producer takes what is in the queue first. When the buffer may be full, a message crosses alone and is answered
there.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import trio

from goqueue.client.producing.answered import AnsweredOutcome
from goqueue.client.producing.content import check_content
from goqueue.client.producing.options import send_options
from goqueue.client.producing.producer import Producer
from goqueue.client.reading.message import Published
from goqueue.portal.call import Call
from goqueue.portal.host import Host
from goqueue.portal.thread import emptied_in_children

Options: TypeAlias = Mapping[str, Any]
Caller: TypeAlias = Call[Published] | None
"""Who waits for the message; None: nobody does."""
Untaken: TypeAlias = tuple[Any, Options, bool, bytes | None, bytes | None, Caller]
"""The name of the producer, the options, whether somebody waits, the value, the key, the caller."""
_kind_of = itemgetter(0, 1, 2)

UNTAKEN_MAX = 2_000
"""Limit of messages that Trio's thread has not taken. A thread that queues more lets it have its turn."""
PAUSE_SECONDS = 0.001


class Intake:
    def __init__(
        self,
        host: Host[Any],
        producer_of: Callable[[Any], Producer | None],
        send: Callable[[Any, bytes | None, bytes | None, Options], Awaitable[Published]],
    ) -> None:
        """`send` is for a message that has to wait, for room or for a producer."""
        self._host = host
        self._producer_of = producer_of
        self._send = send
        self._queue: deque[Untaken] = deque()
        self._moving = 0
        """Messages that are just being taken: they may be counted twice for a moment, but never missed."""
        self._is_watched = self._has_watcher = False
        self._is_closed = False
        host.before_each(self.take_all)
        host.on_closing(self._close)
        emptied_in_children.add(self)

    # From any thread

    def put(
        self, call: Call[Published], target: Any, value: bytes | None, key: bytes | None, options: dict[str, Any]
    ) -> None:
        """The call is settled when the message is."""
        _check(value, key, options)
        self._queue.append((target, options, True, value, key, call))
        self._host.thread.begin(call, self.take_all)

    def put_nowait(
        self, producer: Producer, value: bytes | None, key: bytes | None, options: dict[str, Any]
    ) -> bool:
        """False when there may be no room, or the producer is not open: the call has to cross."""
        _check(value, key, options)
        if self._is_closed or producer.room <= len(self._queue) + self._moving:
            return False
        if "partition" in options:
            producer.check_partition(options["partition"])
        self._queue.append((None, options, False, value, key, None))
        if not self._is_watched:
            self._have_it_watched()
        return not self._is_closed  # else it may have come too late

    def _have_it_watched(self) -> None:
        self._is_watched = True
        try:
            self._host.thread.tell(self._watch)
        except BaseException:  # Ctrl-C: the next message does it
            self._is_watched = False
            raise

    @property
    def is_empty(self) -> bool:
        """Whether everything is with the producers: what moves is counted until it is there."""
        return not (self._queue or self._moving)

    @property
    def is_behind(self) -> bool:
        return len(self._queue) >= UNTAKEN_MAX

    def clear(self) -> None:
        """In a child of the process: what is here is the parent's."""
        self._is_closed = True
        self._queue.clear()

    # In the Trio thread

    def take_all(self) -> None:
        """Give the producers everything that is here."""
        self._moving = len(self._queue)
        if self._moving:
            taken = [self._queue.popleft() for _ in range(self._moving)]
            for (target, options, is_awaited), group in groupby(taken, _kind_of):
                alike = list(group)
                for part in [alike] if options.get("message_id") is None else [[each] for each in alike]:
                    self._take(self._producer_of(target), options, part, is_awaited=is_awaited)
            self._moving = 0

    def _take(self, producer: Producer | None, options: Options, group: list[Untaken], *, is_awaited: bool) -> None:
        _, _, _, values, keys, callers = zip(*group, strict=True)
        if not is_awaited:
            assert producer is not None
            producer.take_queued(values, keys, options)
        elif producer is None or not producer.has_room_for(len(group), options):
            for target, _, _, value, key, call in group:
                assert call is not None
                self._host.start(call, partial(self._send, target, value, key, options))
        else:
            producer.take(AnsweredOutcome(callers, trio.current_time()), values, keys, options)

    def _watch(self) -> None:
        self.take_all()
        if not self._has_watcher:
            self._has_watcher = self._is_watched = self._host.run_beside(self._look_again)

    async def _look_again(self) -> None:
        while True:
            await trio.sleep(PAUSE_SECONDS)
            if not self._queue:
                self._is_watched = False
                if not self._queue:
                    break
                self._is_watched = True  # one came in between, and told nobody
            self.take_all()
        self._has_watcher = False

    def _close(self) -> None:
        """The producer is about to end: the last messages go in, and it settles them."""
        self._is_closed = True
        self.take_all()


def _check(value: bytes | None, key: bytes | None, options: dict[str, Any]) -> None:
    headers = options.get("headers")
    check_content(value, key, headers)
    if options:
        send_options(0, **options)
        if headers is not None:
            options["headers"] = dict(headers)  # the program may go on to change its own
