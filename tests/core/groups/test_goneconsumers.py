"""Who is gone is known for as long as it matters, and no longer."""

from goqueue.core.groups.goneconsumers import LEFT_SECONDS, REMEMBERED_MAX, GoneConsumers


def test_who_left_is_known_for_ten_minutes() -> None:
    gone = GoneConsumers()
    gone.note_left("ann", 1, 0.0)
    gone.note_left("bob", 2, LEFT_SECONDS - 1)
    assert ("ann", 1) in gone
    assert not gone.is_replaced("ann", 1)
    gone.note_left("cid", 3, LEFT_SECONDS)
    assert ("ann", 1) not in gone
    assert ("bob", 2) in gone


def test_who_was_replaced_is_known_for_good() -> None:
    gone = GoneConsumers()
    gone.note_replaced("ann", 1, 0.0)
    gone.note_left("bob", 2, 100 * LEFT_SECONDS)
    assert gone.is_replaced("ann", 1)
    assert ("ann", 1) in gone
    gone.forget("ann", 1)
    assert ("ann", 1) not in gone


def test_the_newest_are_known() -> None:
    gone = GoneConsumers()
    for instance in range(REMEMBERED_MAX + 2):
        gone.note_replaced("ann", instance, 0.0)
    assert len(gone) == REMEMBERED_MAX
    assert ("ann", 1) not in gone
    assert ("ann", 2) in gone


def test_one_that_leaves_again_counts_from_then_on() -> None:
    gone = GoneConsumers()
    gone.note_left("ann", 0, 0.0)
    gone.note_left("bob", 0, 1.0)
    gone.note_left("ann", 0, LEFT_SECONDS)
    assert ("ann", 0) in gone
    assert ("bob", 0) in gone
