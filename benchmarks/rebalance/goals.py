"""What is promised of a rebalance, and what came of it, as figures.

Of partitions that stay something comes as often as in the quiet time, give or take what a busy machine adds. Those
that move pause for less than a second. Of a member that was killed the group cannot know for five seconds whether
it comes back, so there the second begins when it is given up.
"""

from collections.abc import Iterable

from benchmarks.figures import Figure
from benchmarks.rebalance.reading import Outcome, doubled, longest_gap, lost, outcomes
from benchmarks.rebalance.scene import Kind, Run

NOISE_MS = 250.0
"""Between the longest of a few thousand gaps in one part of the run and in another, on a machine with two cores."""
PAUSE_MS_MAX = 1_000.0


def figures_of(run: Run) -> list[Figure]:
    found = outcomes(run)
    of_kind = {kind: [each for each in found if each.event.kind is kind] for kind in Kind}
    steady = _milliseconds(longest_gap(each for outcome in of_kind[Kind.STEADY] for each in outcome.stayed))
    return [
        Figure(f"{run.mode}: nothing happens: longest gap", steady, "ms"),
        _stayed(run.mode, found, steady),
        _pause(f"{run.mode}: a member joins: longest gap of one that moves", of_kind[Kind.JOIN]),
        _pause(f"{run.mode}: a member leaves: longest gap of one that moves", of_kind[Kind.LEAVE]),
        *_killed(run.mode, of_kind[Kind.KILL]),
        *_restarted(run.mode, of_kind[Kind.RESTART]),
        *_counts(run, found),
    ]


def _stayed(mode: str, found: list[Outcome], steady: float) -> Figure:
    gap = _milliseconds(longest_gap(each for outcome in found for each in outcome.stayed))
    goal = f"< {NOISE_MS:g} more than when nothing happens"
    return Figure(f"{mode}: longest gap of one that stays", gap, "ms", goal, gap < steady + NOISE_MS)


def _pause(name: str, found: list[Outcome]) -> Figure:
    return _below_a_second(name, _milliseconds(longest_gap(each for outcome in found for each in outcome.moved)))


def _killed(mode: str, found: list[Outcome]) -> Iterable[Figure]:
    for outcome in found:
        name = f"{mode}: a member is killed: longest gap of one that moves"
        yield Figure(name, _milliseconds(longest_gap(outcome.moved)), "ms")
        behind = _milliseconds(outcome.behind_grace)
        yield _below_a_second(f"{mode}: a member is killed: of that, after it was given up", behind)


def _restarted(mode: str, found: list[Outcome]) -> Iterable[Figure]:
    for outcome in found:
        name = f"{mode}: a static member is killed and started again"
        yield _below_a_second(f"{name}: longest gap of its own", _milliseconds(longest_gap(outcome.back)))
        yield Figure(f"{name}: partitions that move", outcome.moves, "partitions", "0", not outcome.moves)


def _below_a_second(name: str, milliseconds: float) -> Figure:
    return Figure(name, milliseconds, "ms", f"< {PAUSE_MS_MAX:,.0f}", milliseconds < PAUSE_MS_MAX)


def _counts(run: Run, found: list[Outcome]) -> Iterable[Figure]:
    moves, least = sum(each.moves for each in found), sum(each.least for each in found)
    yield Figure(f"{run.mode}: moves in all, {least} being the least", moves, "moves", f"{least}", moves == least)
    sudden = [each for each in found if each.event.kind is not Kind.KILL]
    settled = max(each.settled_after for each in sudden)
    yield Figure(f"{run.mode}: longest time until every partition was with its owner", settled, "s")
    after_kills, others = doubled(run)
    missing = lost(run)
    yield Figure(f"{run.mode}: published", sum(run.published), "messages")
    yield Figure(f"{run.mode}: never received", missing, "messages", "0", not missing)
    yield Figure(f"{run.mode}: received again, of partitions whose owner was killed", after_kills, "messages")
    yield Figure(f"{run.mode}: received again, of others", others, "messages", "0", not others)


def _milliseconds(seconds: float) -> float:
    return 1_000 * seconds
