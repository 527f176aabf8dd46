"""What goqueue's own programs ask of a client, beneath what it shows to everybody."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from goqueue.blocking.asking import ask
from goqueue.blocking.client import Client
from goqueue.blocking.producer import Producer
from goqueue.client.producing.producer import Producer as TrioProducer
from goqueue.client.reading.slices import FetchedSlice, SliceFetcher, SliceRange
from goqueue.client.schemas.registry import source_to_register
from goqueue.client.schemas.source import RegisteredSchema
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.errors import GoQueueError
from goqueue.net.wire.kinds import Request
from goqueue.portal.waiting import ask_now
from goqueue.types import Microseconds, Priority

AnswerT = TypeVar("AnswerT")
ManyMessages: TypeAlias = tuple[
    Sequence[bytes | None], Sequence[bytes | None] | None, Sequence[Priority] | None, Mapping[str, Any]
]
"""Values, keys, priorities where they differ, and all else that `send_many_nowait` takes, by name."""


def call(client: Client, request: Request, kind: type[AnswerT]) -> AnswerT:
    """One request, asked again as the client's own calls are."""
    return ask(client._host, client._inner.call, request, kind)


def resolved_schema(client: Client, schema: RegisteredSchema) -> ResolvedSchema:
    """With all that its references name, and theirs."""
    return ask(client._host, client._inner._schemas.resolved, source_to_register(schema))


def be_patient(client: Client, seconds: float) -> None:
    """Set how long its calls wait for a broker that is away."""
    client._inner.patience_seconds = seconds


def now(client: Client) -> Microseconds:
    return client._inner.clock.now()


def slices(client: Client, wanted: SliceRange, *, fail_on_data_loss: bool = True) -> Iterator[FetchedSlice]:
    """Whole batches as they lie in the log, the next ones under way while one is looked at."""
    fetcher = SliceFetcher(client._inner, wanted, fail_on_data_loss=fail_on_data_loss)
    ask(client._host, _start, client, fetcher)
    try:
        while taken := ask(client._host, fetcher.next):
            yield from taken
    finally:
        client._host.thread.tell(fetcher.close)


async def _start(client: Client, fetcher: SliceFetcher) -> None:
    client._inner.spawn(fetcher.run)


def send_all_nowait(producer: Producer, calls: Iterable[ManyMessages]) -> None:
    """Many a `send_many_nowait` in one turn of the Trio thread: the way there costs more than a few messages do.

    The first call that is refused ends it; its number is in the error's details as `call`.
    """
    ask_now(producer._host, _send_all, producer._inner, calls)


def _send_all(producer: TrioProducer, calls: Iterable[ManyMessages]) -> None:
    for number, (values, keys, priorities, options) in enumerate(calls):
        try:
            if priorities is None:
                producer.send_many_nowait(values, keys, **options)
            else:
                producer._send_mixed_nowait(values, keys, priorities, **options)
        except GoQueueError as error:
            error.details["call"] = number
            raise
