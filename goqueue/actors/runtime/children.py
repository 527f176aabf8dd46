"""The children of one supervisor, in the order of their start."""

from collections.abc import Callable, Sequence

import trio

from goqueue.actors.runtime.child import Child, ChildSpec
from goqueue.actors.runtime.cycles import CallWait, Party
from goqueue.actors.runtime.mailbox import SiblingCounts


class Family:
    def __init__(self, on_end: Callable[[Child], None]) -> None:
        self._on_end = on_end
        self._children: dict[str, Child] = {}
        self._counts = SiblingCounts()

    def __contains__(self, name: str) -> bool:
        return name in self._children

    def in_order(self) -> list[Child]:
        return list(self._children.values())

    def find(self, name: str) -> Child | None:
        return self._children.get(name)

    def place(self, spec: ChildSpec) -> Child:
        if spec.name in self._children:
            raise ValueError(f"there is a child {spec.name} already")
        spec.mailbox.siblings = self._counts
        child = self._children[spec.name] = Child(spec, self._on_end)
        return child

    def forget(self, child: Child) -> None:
        child.forsake()
        del self._children[child.name]

    async def start(self, children: Sequence[Child], parent: Party, nursery: trio.Nursery) -> None:
        """Start them one after the other; the first that cannot start ends it."""
        for child in children:
            child.expect(parent)
        for child in children:
            await trio.lowlevel.checkpoint_if_cancelled()
            with parent.waiting(CallWait(child.party)):
                await child.start(nursery)

    async def stop(self, children: Sequence[Child], parent: Party) -> None:
        """Stop them in reverse. Callers of children that are not running get an error first: others may wait."""
        for child in children:
            child.forsake()
        for child in reversed(children):
            with parent.waiting(CallWait(child.party)):
                await child.stop()
