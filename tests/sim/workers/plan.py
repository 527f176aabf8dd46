"""What a seed decides for a world of workers: a world of groups whose members are all workers."""

from dataclasses import dataclass, replace
from random import Random

from tests.sim.groups.plan import GroupPlan, GroupSetup, MemberPlan

QUICK = (0.0, 0.0, 0.0, 0.001, 0.02)
SECONDS_OF_HANDLERS = (QUICK, (*QUICK * 4, 0.3, 1.5), (*QUICK * 10, 0.7), (0.05, 0.2, 1.0))
"""A handler that is quick for long and then slow has many messages held ahead."""
VISIBILITIES = (0.5, 0.6, 1.0, 3.0)
SHARED_ODDS = 0.4


@dataclass(frozen=True, slots=True)
class WorkerPlan(MemberPlan):
    concurrency: int = 1
    seconds: tuple[float, ...] = QUICK
    """How long a handler works."""
    failing: float = 0.0
    """So often it raises."""
    deadly: float = 0.0
    """So often the process of the worker dies in it."""

    def __str__(self) -> str:
        odds = f"{self.failing:.3f} fail, {self.deadly:.3f} die"
        return f"a worker, {self.visibility:.2f} s, {self.concurrency} at work for {self.seconds} s, {odds}"


def with_workers(plan: GroupPlan, random: Random) -> GroupPlan:
    groups = tuple(_with_workers(setup, random) for setup in plan.groups)
    return replace(plan, groups=groups)


def _with_workers(setup: GroupSetup, random: Random) -> GroupSetup:
    deadly, failing = random.choice([0.0, 0.02, 0.1]), random.choice([0.0, 0.0, 0.1])
    members = tuple(_worker(each, random, deadly, failing) for each in setup.members)
    is_shared = setup.is_shared or random.random() < SHARED_ODDS
    return replace(setup, members=members, is_shared=is_shared, streams=())


def _worker(member: MemberPlan, random: Random, deadly: float, failing: float) -> WorkerPlan:
    return WorkerPlan(
        habits=(),
        visibility=random.choice(VISIBILITIES),
        batch=1,
        auto_extends=True,
        member_id=member.member_id,
        concurrency=random.choice([1, 1, 2, 5, 20]),
        seconds=random.choice(SECONDS_OF_HANDLERS),
        failing=failing,
        deadly=deadly,
    )
