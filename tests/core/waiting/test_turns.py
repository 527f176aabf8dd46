"""The receives of a member: whose turn it is, how one is shared out, and that a message may have to be alone."""

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.waiting.turns import (
    FIRST_SECONDS_MAX,
    TOGETHER_BYTES_MAX,
    MemberTurns,
    ReceiveLimits,
    ReceiveShare,
)

LIMITS = ReceiveLimits(messages_max=100, bytes_max=1_000, lasts_max=100, is_busy=False)
NAMES = ("a", "b", "c", "d")


def receive(turns: MemberTurns[str], *served: str, names: tuple[str, ...] = NAMES, now: float = 1.0) -> list[str]:
    """The order in which partitions are asked by a receive that these serve."""
    share = turns.share(LIMITS, names, now, None)
    for number in share.order:
        if names[number] in served:
            assert share.admit(number, 1, 10)
    turns.note(share, names, now)
    return [names[number] for number in share.order]


def test_the_partition_behind_that_of_the_last_delivery_is_asked_first() -> None:
    turns: MemberTurns[str] = MemberTurns()
    assert receive(turns, "b") == ["a", "b", "c", "d"]
    assert receive(turns) == ["c", "d", "a", "b"]
    assert receive(turns, "d", "a") == ["c", "d", "a", "b"]
    assert receive(turns, "d") == ["b", "c", "d", "a"], "a was asked last, and gave something"
    assert receive(turns, names=("a", "b")) == ["a", "b"], "d is not assigned any more"


def test_only_those_are_asked_that_have_something() -> None:
    turns: MemberTurns[str] = MemberTurns()
    receive(turns, "b")
    assert turns.share(LIMITS, NAMES, 1.0, {0, 3}).order == [3, 0]


def test_each_may_give_what_the_ones_before_have_left() -> None:
    share = ReceiveShare(LIMITS, range(3))
    assert share.rest() == LIMITS
    share.admit(0, 30, 400)
    assert share.rest() == ReceiveLimits(70, 600, 70, is_busy=True)
    assert not share.is_full(0.0)
    share.admit(1, 5, 600)
    assert share.is_full(0.0)


def test_a_prefetch_is_given_no_last_delivery() -> None:
    share = ReceiveShare(ReceiveLimits(100, 1_000, 0, is_busy=False), range(2))
    share.admit(0, 30, 400)
    assert share.rest().lasts_max == 0


def test_a_delivery_that_would_make_the_answer_too_large_is_released_and_ends_the_receive() -> None:
    share = ReceiveShare(ReceiveLimits(100, 2 * TOGETHER_BYTES_MAX, 100, is_busy=False), range(2))
    assert share.admit(0, 1, 1)
    assert not share.admit(1, 1, TOGETHER_BYTES_MAX)
    assert (share.is_full(0.0), share.served) == (True, [0])
    assert ReceiveShare(LIMITS, range(1)).admit(0, 1, 2 * TOGETHER_BYTES_MAX), "a single one is not"


def test_time_ends_a_receive_that_has_something_unless_there_is_a_backlog() -> None:
    turns: MemberTurns[str] = MemberTurns()
    share, end = turns.share(LIMITS, NAMES, 1.0, None), 1.0 + FIRST_SECONDS_MAX
    assert not share.is_full(end), "nothing was taken"
    share.admit(0, 1, 1)
    assert share.is_full(end)
    turns.note(share, NAMES, end)
    assert turns.has_backlog
    share = turns.share(LIMITS, NAMES, 2.0, None)
    share.admit(0, 1, 1)
    assert not share.is_full(99.0)


def test_a_member_is_busy_that_was_given_something_since_it_asked() -> None:
    turns: MemberTurns[str] = MemberTurns()
    asked = turns.given
    assert turns.admit(LIMITS, asked) == LIMITS
    receive(turns, "a", now=7.0)
    assert turns.served_at == 7.0
    admitted = turns.admit(LIMITS, asked)
    assert admitted is not None
    assert admitted.is_busy


PLENTY = st.lists(st.tuples(st.integers(1, 5), st.sets(st.sampled_from(NAMES))), min_size=len(NAMES), max_size=40)


@given(st.sampled_from(NAMES), PLENTY)
def test_no_partition_waits_for_ever(patient: str, rounds: list[tuple[int, set[str]]]) -> None:
    """One always has something; others come and go, and the first that is asked may fill a receive."""
    turns, waited = MemberTurns[str](), 0
    for now, (messages_max, others) in enumerate(rounds):
        share = turns.share(ReceiveLimits(messages_max, 1_000, 9, is_busy=False), NAMES, now, None)
        for number in share.order:
            if not share.is_full(now) and NAMES[number] in {patient} | others:
                share.admit(number, 1, 10)
        turns.note(share, NAMES, now)
        waited = 0 if NAMES.index(patient) in share.served else waited + 1
        assert waited < len(NAMES)


class Shelf:
    """A partition. A message that is lost before its last delivery is given alone, to a member that is not busy."""

    def __init__(self, messages: list[bool]) -> None:
        self.messages = deque(messages)

    def give(self, limits: ReceiveLimits) -> list[bool]:
        if self.messages and self.messages[0]:
            return [self.messages.popleft()] if limits.lasts_max and not limits.is_busy else []
        given = list[bool]()
        while self.messages and not self.messages[0] and len(given) < limits.messages_max:
            given.append(self.messages.popleft())
        return given


ASKS = st.tuples(st.integers(1, 4), st.sampled_from([0, 4]), st.booleans(), st.integers(0, 2))
"""Messages, last deliveries, whether the member settles what it holds, and how many receives are under way."""


@given(st.lists(st.lists(st.booleans(), max_size=5), min_size=1, max_size=3), st.lists(ASKS, max_size=30))
def test_a_message_on_its_last_lost_delivery_is_alone(
    stocks: list[list[bool]], asks: list[tuple[int, int, bool, int]]
) -> None:
    """Whatever receives are under way when it is given: the member holds it and nothing else."""
    shelves, turns, held = [Shelf(stock) for stock in stocks], MemberTurns[int](), list[bool]()
    for now, (messages_max, lasts_max, settles, others) in enumerate(asks):
        if settles:
            held = []
        limits, given = ReceiveLimits(messages_max, 1_000, lasts_max, is_busy=bool(held)), turns.given
        for _ in range(1 + others):
            held += received(turns, shelves, limits, given, now)
            assert Counter(held)[True] == 0 or held == [True]


def received(
    turns: MemberTurns[int], shelves: list[Shelf], limits: ReceiveLimits, given: int, now: float
) -> list[bool]:
    admitted, found = turns.admit(limits, given), list[bool]()
    if admitted is None:
        return []
    share = turns.share(admitted, range(len(shelves)), now, None)
    for number in share.order:
        messages = [] if share.is_full(now) else shelves[number].give(share.rest())
        if messages:
            assert share.admit(number, len(messages), 10 * len(messages), is_alone=True in messages)
            found += messages
    turns.note(share, range(len(shelves)), now)
    return found
