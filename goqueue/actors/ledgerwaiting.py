"""Members that wait at a partition until there is something for them: each is let go once, and then looks."""

from collections.abc import Callable, Iterable

from goqueue.actors.grouprequests import AwaitDeliverable
from goqueue.actors.messages import Reply
from goqueue.core.deliverywaits import DeliveryWaits


class WaitingMembers:
    def __init__(self) -> None:
        self._waits: DeliveryWaits[Reply[None]] = DeliveryWaits()

    def __len__(self) -> int:
        return len(self._waits)

    def __contains__(self, group: str) -> bool:
        return group in self._waits

    def add(self, message: AwaitDeliverable, reply: Reply[None]) -> None:
        self._waits.forget(message.group, lambda other: not other.wanted)
        self._waits.wait(message.group, message.member, reply, message.deadline)

    def let_go(self, group: str, chosen: Callable[[str], bool] = lambda _: True) -> None:
        """Those of a group whose member is chosen."""
        _resolve(self._waits.of(group, chosen))

    def let_all_go(self) -> None:
        _resolve(self._waits.all())

    def let_go_late(self, now: float) -> None:
        """Those whose time is up."""
        _resolve(self._waits.expired(now))

    def next_deadline(self) -> float | None:
        return self._waits.next_deadline()


def _resolve(replies: Iterable[Reply[None]]) -> None:
    for reply in replies:
        reply.resolve(None)
