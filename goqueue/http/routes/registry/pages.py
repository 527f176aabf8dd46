"""Lists that a client wants whole, from pages of the wire."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

from goqueue.http.routing.route import HttpCall
from goqueue.net.wire import schemas as wire

ItemT = TypeVar("ItemT")
LIVE, ALSO_DELETED, ONLY_DELETED = 0, 1, 2


class Paged(Protocol):
    @property
    def offset(self) -> int: ...

    @property
    def limit(self) -> int: ...


def deleted_ones(deleted: bool, only: bool = False) -> int:
    return ONLY_DELETED if only else ALSO_DELETED if deleted else LIVE


async def everything(
    call: HttpCall[Any, Any], request: Any, asked: Paged, items: Callable[[Any], Sequence[ItemT]]
) -> list[ItemT]:
    """All items from `offset` on, or as many as `limit` says. They may change between two pages."""
    found: list[ItemT] = []
    most = request.count_max
    while True:
        count = most if asked.limit < 0 else min(most, asked.limit - len(found))
        page: Any = await call.ask(request._replace(offset=asked.offset + len(found), count_max=max(count, 1)))
        more = items(page)
        found += more
        if not (page.has_more and more) or 0 <= asked.limit <= len(found):
            return found if asked.limit < 0 else found[: asked.limit]


def page_of(answer: object) -> Sequence[wire.SchemaUse]:
    return cast(wire.SchemaUses, answer).uses
