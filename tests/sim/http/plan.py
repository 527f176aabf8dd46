"""What a seed decides for a world of HTTP: a world of groups in which most members speak HTTP."""

from dataclasses import dataclass, replace
from random import Random

from tests.sim.clients.plan import Trouble
from tests.sim.groups.plan import GroupPlan, GroupSetup, Habit, MemberPlan

HTTP_ODDS, ALL_HTTP_ODDS = 0.6, 0.6
CALM_ODDS = 0.4
"""Nothing goes wrong but that brokers end, and members do what they do: some rules can only be judged there."""
SIZES = ((1, 40, 300), (1, 40, 300), (40, 2_000))
"""Of values: an answer that takes long to arrive says little of its leases."""
BATCHES = (1, 5, 20)


@dataclass(frozen=True, slots=True)
class HttpMemberPlan(MemberPlan):
    session: float = 5.0
    """Seconds of silence after which the group expels it."""
    has_pulse: bool = True
    """It says heartbeats while it works; else it is expelled from time to time, and joins again."""
    leaving: float = 0.0
    """So often it leaves a poll alone that is open."""
    names_generation: bool = False
    """Its polls name the generation that it believes in."""

    def __str__(self) -> str:
        pulse = "" if self.has_pulse else ", no heartbeats"
        manner = f"session {self.session:g} s{pulse}, leaves {self.leaving:.1f} of its polls"
        return f"over HTTP, {manner}; {MemberPlan.__str__(self)}"


def with_http(plan: GroupPlan, random: Random) -> GroupPlan:
    """Without a clock that jumps: an id is remembered for two minutes of it, and delays are counted on it."""
    groups = tuple(_with_http(setup, random) for setup in plan.groups)
    faults = tuple(fault for fault in plan.faults if fault.trouble is not Trouble.CLOCK)
    plan = replace(plan, groups=groups, faults=faults, sizes=random.choice(SIZES))
    return _calmed(plan, random) if random.random() < CALM_ODDS else plan


def _calmed(plan: GroupPlan, random: Random) -> GroupPlan:
    """With lives that are long enough for sessions to end."""
    faults = tuple(fault for fault in plan.faults if fault.trouble in (Trouble.ENDING, Trouble.LATENCY))
    lives = (replace(plan.lives[0], seconds=random.uniform(12, 20)), *plan.lives[1:])
    return replace(plan, lives=lives, faults=faults, failing=(), damage=(), damaged_files=())


def _with_http(setup: GroupSetup, random: Random) -> GroupSetup:
    odds = 1.0 if random.random() < ALL_HTTP_ODDS else HTTP_ODDS
    members = [_over_http(each, random) if random.random() < odds else each for each in setup.members]
    ids = [each.member_id for each in members]
    if len(set(ids)) < len(ids):  # two over HTTP under one id are one member
        members = [replace(each, member_id=None) for each in members]
    return replace(setup, members=tuple(members), streams=())


def _over_http(member: MemberPlan, random: Random) -> HttpMemberPlan:
    habits = tuple(habit for habit in member.habits if habit is not Habit.ITERATE)
    return HttpMemberPlan(
        habits=habits or (Habit.ACK_ALL,),
        visibility=max(1.0, member.visibility),
        batch=random.choice(BATCHES),
        auto_extends=False,
        member_id=member.member_id,
        session=random.choice([1.0, 2.0, 5.0]),
        has_pulse=random.random() < 0.7,
        leaving=random.choice([0.0, 0.1, 0.5]),
        names_generation=random.random() < 0.3,
    )
