"""One partition of a group, told by example: whose requests it takes (G10). The model of groups has the rest."""

import pytest

from goqueue.core.groups.tenure import GONE_MAX, LEFT_SECONDS, Tenure
from goqueue.errors import Fenced, StaleGeneration


def owned_by_ann(*, is_shared: bool = False) -> Tenure:
    tenure = Tenure()
    tenure.is_shared = is_shared
    tenure.assign(None if is_shared else "ann", 3)
    return tenure


def may(tenure: Tenure, member: str, generation: int = 3, instance: int = 1) -> bool:
    try:
        tenure.check(member, generation, instance, "orders/0")
    except (StaleGeneration, Fenced):
        return False
    return True


def test_only_the_owner_may_and_not_under_a_generation_from_before() -> None:
    """Pitfall: stale generation accepted on poll or commit."""
    tenure = owned_by_ann()
    assert may(tenure, "ann")
    assert may(tenure, "ann", generation=9), "others changed, it kept the partition"
    assert not may(tenure, "bob")
    with pytest.raises(StaleGeneration, match="ann in generation 2 does not have orders/0"):
        tenure.check("ann", 2, 1, "orders/0")
    assert tenure.is_held_by("ann", 1), "to wait it needs no generation"


def test_a_partition_without_owner_takes_requests_of_nobody() -> None:
    assert not may(Tenure(), "ann")


def test_the_next_owner_ends_the_tenure_of_the_one_before() -> None:
    tenure = owned_by_ann()
    tenure.assign("bob", 4)
    assert may(tenure, "bob", generation=4)
    assert not may(tenure, "ann", generation=4)


def test_who_left_is_refused_before_the_next_owner_is_named() -> None:
    tenure = owned_by_ann()
    tenure.note_left("ann", 1, 0.0, keeps_place=False)
    assert tenure.member is None
    assert not may(tenure, "ann", instance=2)
    tenure.note_left("bob", 1, 0.0, keeps_place=False)
    tenure.assign("ann", 4)
    tenure.note_left("bob", 1, LEFT_SECONDS, keeps_place=False)
    assert may(tenure, "ann", generation=4), "that another one left does not concern it"


def test_who_closed_is_refused_and_its_place_is_kept_for_the_next_consumer() -> None:
    tenure = owned_by_ann()
    tenure.note_left("ann", 1, 0.0, keeps_place=True)
    with pytest.raises(StaleGeneration):
        tenure.check("ann", 3, 1, "orders/0")
    assert not tenure.is_held_by("ann", 1)
    tenure.note_replaced("ann", 1, 2, 1.0)
    assert may(tenure, "ann", instance=2)
    assert not may(tenure, "ann", instance=1)


def test_who_closed_may_come_back_itself() -> None:
    tenure = owned_by_ann()
    tenure.note_left("ann", 1, 0.0, keeps_place=True)
    tenure.note_replaced("ann", 1, 1, 1.0)
    assert may(tenure, "ann")


def test_who_was_replaced_is_fenced_for_good_whoever_owns_the_partition() -> None:
    tenure = owned_by_ann()
    tenure.note_replaced("ann", 1, 2, 0.0)
    tenure.assign("bob", 4)
    tenure.note_left("bob", 1, 100 * LEFT_SECONDS, keeps_place=False)
    with pytest.raises(Fenced, match="member_id of its own"):
        tenure.check("ann", 9, 1, "orders/0")


def test_in_a_shared_group_everybody_may_who_is_not_gone() -> None:
    tenure = owned_by_ann(is_shared=True)
    assert may(tenure, "bob", generation=0)
    tenure.note_left("bob", 1, 0.0, keeps_place=False)
    tenure.note_replaced("cid", 1, 2, 0.0)
    assert [may(tenure, member) for member in ("ann", "bob", "cid")] == [True, False, False]
    assert may(tenure, "bob", instance=2)


# Who is gone is known for as long as it matters, and no longer


def shared() -> Tenure:
    tenure = Tenure()
    tenure.is_shared = True
    return tenure


def leave(tenure: Tenure, member: str, instance: int, now: float) -> None:
    tenure.note_left(member, instance, now, keeps_place=False)


def test_who_left_is_known_for_ten_minutes() -> None:
    tenure = shared()
    leave(tenure, "ann", 1, 0.0)
    leave(tenure, "bob", 2, LEFT_SECONDS - 1)
    assert not tenure.is_held_by("ann", 1)
    leave(tenure, "cid", 3, LEFT_SECONDS)
    assert tenure.is_held_by("ann", 1)
    assert not tenure.is_held_by("bob", 2)


def test_who_was_replaced_is_known_for_good() -> None:
    tenure = shared()
    tenure.note_replaced("ann", 1, 9, 0.0)
    leave(tenure, "bob", 2, 100 * LEFT_SECONDS)
    assert not tenure.is_held_by("ann", 1)
    tenure.note_replaced("ann", 9, 1, 100 * LEFT_SECONDS)
    assert tenure.is_held_by("ann", 1)


def test_the_newest_are_known() -> None:
    tenure = shared()
    for instance in range(GONE_MAX + 2):
        tenure.note_replaced("ann", instance, -1, 0.0)
    assert [tenure.is_held_by("ann", instance) for instance in (1, 2, GONE_MAX + 1)] == [True, False, False]


def test_one_that_leaves_again_counts_from_then_on() -> None:
    tenure = shared()
    leave(tenure, "ann", 0, 0.0)
    leave(tenure, "bob", 0, 1.0)
    leave(tenure, "ann", 0, LEFT_SECONDS)
    assert not tenure.is_held_by("ann", 0)
    assert not tenure.is_held_by("bob", 0)
