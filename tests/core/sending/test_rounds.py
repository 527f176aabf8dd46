"""When messages leave, over all rows of a producer."""

from goqueue.core.sending.rounds import SendRounds


def rounds_under_way(batches: int = 1, calls: int = 1) -> SendRounds[str]:
    rounds = SendRounds[str]()
    for _ in range(batches):
        rounds.note_sent(calls)
    return rounds


def state_of(rounds: SendRounds[str]) -> tuple[bool, bool]:
    return rounds.is_open, rounds.leave_at_once


def test_the_first_message_leaves_at_once_and_others_wait_for_its_answer() -> None:
    assert state_of(SendRounds[str]()) == (True, True)
    assert state_of(rounds_under_way()) == (False, False)


def test_a_round_ends_with_its_last_answer() -> None:
    rounds = rounds_under_way(batches=2)
    assert not rounds.note_answered()
    assert not rounds.is_open
    assert rounds.note_answered()
    assert rounds.is_open


def test_who_sends_one_after_the_other_never_waits() -> None:
    rounds = SendRounds[str]()
    for _ in range(3):
        assert rounds.leave_at_once
        rounds.note_sent(1)
        rounds.note_answered()


def test_after_messages_that_came_together_the_next_ones_wait_for_each_other() -> None:
    rounds = rounds_under_way(calls=2)
    rounds.note_answered()
    assert rounds.is_open
    assert not rounds.leave_at_once


def test_after_one_that_others_followed_the_next_ones_wait_for_each_other() -> None:
    rounds = rounds_under_way()
    rounds.hold("a row")
    rounds.note_answered()
    assert not rounds.leave_at_once


def test_after_a_round_of_one_alone_the_next_leaves_at_once_again() -> None:
    rounds = rounds_under_way(calls=5)
    rounds.note_answered()
    rounds.note_sent(1)
    rounds.note_answered()
    assert rounds.leave_at_once


def test_what_is_held_is_taken_once_in_the_order_in_which_it_came() -> None:
    rounds = SendRounds[str]()
    for queue in ("b", "a", "b"):
        rounds.hold(queue)
    assert rounds.take_held() == ["b", "a"]
    assert rounds.take_held() == []
