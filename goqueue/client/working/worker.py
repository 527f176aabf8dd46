"""A worker: `await goqueue.worker("orders", "billing", handler)` runs a handler for each message of a group.

This part is the same on every surface: parameters, checks, and how a worker is stopped. The rules are in rules.py.
"""

import inspect
import math
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, cast

import trio

from goqueue.client.client import connect
from goqueue.client.consuming.delivery import DeliveredMessage
from goqueue.client.consuming.options import VISIBILITY_SECONDS, ConsumerOptions, Start, start_text
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.client.consuming.receiving import MESSAGES_MAX
from goqueue.client.consuming.retry import Retry
from goqueue.client.link.address import address_of
from goqueue.client.link.arguments import check_client_name, check_flag, check_seconds_between, check_whole
from goqueue.client.schemas.source import AnySchema
from goqueue.client.working.handlers import in_tasks
from goqueue.client.working.rules import Worked, Working
from goqueue.client.working.runnable import check_takes_a_message
from goqueue.client.working.settling import note_ack_error
from goqueue.client.working.signals import signals_stop
from goqueue.core.receiving.pace import BATCH_MAX
from goqueue.environment import Network, WallClock
from goqueue.errors import Closed
from goqueue.nursery import PlainNursery
from goqueue.portal.eventloop import check_trio_runs
from goqueue.types import Seconds

DRAIN_SECONDS = 30.0
WORKER_RETRY = Retry(attempts=40, first=1.0, longest=60.0, jitter=0.2)
"""A message that always fails is a dead letter after about half an hour: retries survive an outage."""
DEFAULTS = {"shared": True, **WORKER_RETRY.settings}
"""The settings with which a worker makes its group, unless it was given others."""

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")
Handler: TypeAlias = Callable[[DeliveredMessage], Awaitable[object]]


class AnyWorker(Generic[HandlerT]):
    """The base of the workers of all surfaces."""

    def __init__(
        self,
        topic: str | Sequence[str],
        group: str,
        handler: HandlerT,
        *,
        concurrency: int = 10,
        url: str | None = None,
        name: str = "goqueue",
        shared: bool | None = None,
        key_order: bool | None = None,
        lanes: str | None = None,
        max_deliveries: int | None = None,
        retry: Retry | None = None,
        assignor: str | None = None,
        rebalance: str | None = None,
        start: Start = "earliest",
        visibility_timeout: Seconds = VISIBILITY_SECONDS,
        member_id: str | None = None,
        schema: AnySchema = None,
        on_misfit: str | None = None,
        drain_timeout: Seconds = DRAIN_SECONDS,
        handle_signals: bool = True,
        network: Network | None = None,
        clock: WallClock | None = None,
    ) -> None:
        """`topic` is a name, a list of names or a pattern. At most `concurrency` handlers run at a time.

        `stop` drains it, and so does SIGTERM or SIGINT in the main thread, unless `handle_signals` is False:
        handlers have `drain_timeout` seconds to return. `url`, `name`, `network` and `clock` are as for
        `connect`, all else as for `client.consumer`. A group that the worker makes is shared and tries a message 40
        times, as far as nothing else is given; in a group that is there it takes what that has.
        """
        self._handler = self._checked(handler)
        check_takes_a_message(handler)
        self._concurrency = check_whole("concurrency", concurrency, 1, MESSAGES_MAX)
        self._drain_timeout = check_drain(drain_timeout)
        self._handles_signals = check_flag("handle_signals", handle_signals)
        address_of(url)
        self._connecting: dict[str, Any] = {
            "url": url,
            "name": check_client_name(name),
            "network": network,
            "clock": clock,
        }
        self._consuming: dict[str, Any] = {
            "topics": _kept(topic),
            "group": group,
            "shared": shared,
            "key_order": key_order,
            "lanes": lanes,
            "max_deliveries": max_deliveries,
            "retry": retry,
            "assignor": assignor,
            "rebalance": rebalance,
            "start": start,
            # At work, held, and with acks under way. With one more, an idle worker polls seldom.
            "max_in_flight": 2 * concurrency + 2 * BATCH_MAX + 1,
            "on_ack_error": note_ack_error,
            "visibility_timeout": visibility_timeout,
            "auto_extend": True,
            "member_id": member_id,
            "schema": schema,
            "on_misfit": on_misfit,
        }
        _check_consuming(ConsumerOptions(**self._consuming))
        self._working = Working(concurrency, DEFAULTS)
        self._has_begun = False

    @staticmethod
    @abstractmethod
    def _checked(handler: HandlerT) -> HandlerT:
        """Returns a handler that this surface can run; else raises TypeError."""

    def stop(self, drain_timeout: Seconds | None = None) -> None:
        """Take no more messages. `run` returns when all handlers have, after `drain_timeout` seconds at the latest.

        May be called from anywhere: handlers, other threads, before it runs. Again, with less time, it ends sooner.
        """
        self._working.stop(self._drain_timeout if drain_timeout is None else check_drain(drain_timeout))

    @contextmanager
    def _begun(self) -> Iterator[None]:
        """A context for its only run."""
        if self._has_begun:
            raise Closed("a worker runs once; make another")
        self._has_begun = True
        handled = signals_stop(self.stop, partial(self.stop, 0.0))
        with handled if self._handles_signals else nullcontext():
            yield


class Worker(AnyWorker[Handler]):
    """A worker that can be stopped from inside the program: `run` it, and `stop` it from anywhere."""

    @staticmethod
    def _checked(handler: Handler) -> Handler:
        return check_async(handler, "goqueue.blocking.worker")

    async def run(self) -> Worked:
        """Run until it is stopped. Final refusals of the broker are raised."""
        check_trio_runs()
        with self._begun():
            async with PlainNursery() as tasks:
                ending = trio.CancelScope()
                worked = _Result()
                tasks.start_soon(self._work, ending, worked)
                try:
                    await worked.is_there.wait()
                except BaseException:
                    ending.cancel()
                    raise
        return worked.value

    async def _work(self, ending: trio.CancelScope, worked: "_Result") -> None:
        """A cancellation of the worker must not cancel the client: messages are released through it."""
        with trio.CancelScope(shield=True):
            async with connect(**self._connecting) as client:
                consumer = QueueConsumer(client, ConsumerOptions(**self._consuming))
                self._working.attach(consumer)
                async with consumer:
                    with ending:
                        worked.value = await self._working.run(consumer, in_tasks(self._handler))
        worked.is_there.set()


class _Result:
    """The result of the work, once it has ended."""

    def __init__(self) -> None:
        self.value = Worked(0, 0, 0)
        self.is_there = trio.Event()


def with_parameters_of(kind: Callable[P, object]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Gives `worker` the parameters of a Worker, also in its signature and in its text."""
    worker_kind: Any = kind
    handler = inspect.signature(worker_kind._checked).parameters["handler"].annotation
    parameters = [
        each.replace(annotation=handler) if each.name == "handler" else each
        for each in inspect.signature(kind).parameters.values()
    ]

    def dress(function: Callable[..., T]) -> Callable[P, T]:
        shown = inspect.signature(function).replace(parameters=parameters)
        function.__signature__ = shown  # type: ignore[attr-defined]
        function.__doc__ = f"{inspect.getdoc(function)}\n\n{inspect.getdoc(worker_kind.__init__)}"
        return function

    return dress


@with_parameters_of(Worker)
async def worker(*arguments: Any, **named: Any) -> Worked:
    """Run an async handler for each message of a group, until it is stopped: a `Worker` without a name.

    A message whose handler returns is acked, one whose handler raises is nacked with the reason. See `Worker`.
    """
    return await Worker(*arguments, **named).run()


# Checks


def check_drain(seconds: object) -> float:
    return check_seconds_between("drain_timeout", seconds, 0.0, math.inf)


def _kept(topics: Any) -> Any:
    """A list, as an iterator can be read only once."""
    return list(topics) if isinstance(topics, Iterable) and not isinstance(topics, str | bytes) else topics


def _check_consuming(options: ConsumerOptions) -> None:
    """Checks that would otherwise fail only in `run`."""
    assert options.subscription
    start_text(options.start)


def check_async(handler: HandlerT, instead: str) -> HandlerT:
    if not is_async(handler):
        raise TypeError(f"{handler!r} is no async function; write it with `async def`, or use {instead}")
    return handler


def check_plain(handler: HandlerT, instead: str) -> HandlerT:
    if is_async(handler) or not callable(cast(object, handler)):
        raise TypeError(f"{handler!r} is no plain function; for an async one use {instead}")
    return handler


def is_async(handler: object) -> bool:
    """Also for a partial, a function that a decorator wrapped, and a callable object."""
    if not callable(handler):
        return False
    inner = inspect.unwrap(handler)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)
