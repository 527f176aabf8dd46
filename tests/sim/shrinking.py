"""A failing seed, made smaller: switch one fault off after the other, and keep off what is not needed to fail."""

from collections.abc import Collection

from goqueue.testing.determinism import run_deterministically
from tests.sim.clients.plan import ClientPlan
from tests.sim.clients.world import ClientWorld


def failure_of(world: type[ClientWorld], seed: int, without: Collection[int] = ()) -> BaseException | None:
    try:
        run_deterministically(world(seed, without).run, seed=seed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error
    return None


def shrunk(world: type[ClientWorld], seed: int) -> ClientPlan | None:
    """The plan with the fewest faults that still fails, found greedily; None when the seed does not fail."""
    if failure_of(world, seed) is None:
        return None
    off: set[int] = set()
    for fault in world(seed).plan.faults:
        if failure_of(world, seed, off | {fault.number}) is not None:
            off.add(fault.number)
    return world(seed, off).plan
