"""Runs a tree of actors within the rest of a program."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from goqueue.actors.runtime.child import Child, ChildSpec, ChildState
from goqueue.actors.runtime.ref import ActorRef
from goqueue.nursery import PlainNursery


@asynccontextmanager
async def running(spec: ChildSpec) -> AsyncIterator[ActorRef]:
    """Run an actor, or a supervisor and all below it, while the block runs; then stop it in order.

    A root is not restarted: its crash cancels the block and is raised here, bare. A block that ends with an
    exception or is cancelled cancels the tree at once. Either way nothing of it runs afterwards.
    """
    root = Child(spec, _raise_crash)
    async with PlainNursery() as nursery:
        await root.start(nursery)
        yield spec.ref
        await root.stop()
        if root.error is not None:
            raise root.error


def _raise_crash(root: Child) -> None:
    if root.state is ChildState.CRASHED and root.error is not None:
        raise root.error
