"""What a consumer requests: as transcripts, and as properties of any run."""

import math

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from goqueue.core.receiving.requests import (
    BYTES_MAX,
    CROWDED_SECONDS,
    NOTHING,
    POLL_SECONDS_MAX,
    QUESTIONS_MAX,
    REST_SECONDS,
    SOON_SECONDS,
    Arrived,
    Holding,
    Question,
    ReceiveRequests,
    WaitingCall,
)

EMPTY = Holding(ahead=0, in_flight=0, messages_free=100, bytes_free=4 * BYTES_MAX)
PLACES = ("a", "b", "c")


def requests() -> ReceiveRequests[str]:
    made: ReceiveRequests[str] = ReceiveRequests()
    made.places = PLACES
    return made


def waiting(messages: int = 10, at_once: int = 10, deadline: float = math.inf) -> ReceiveRequests[str]:
    made = requests()
    made.calls[object()] = WaitingCall(messages, at_once, deadline)
    return made


def sent(made: ReceiveRequests[str], now: float = 0.0, holding: Holding = EMPTY) -> Question[str]:
    question = made.next(now, holding)
    assert question is not None
    made.sent(question, repeats=False)
    return question


def test_without_a_call_nothing_is_requested() -> None:
    assert requests().next(0.0, EMPTY) is None
    assert requests().next_deadline(EMPTY) == math.inf


def test_a_call_is_asked_for_once_and_for_all_partitions() -> None:
    made = waiting(messages=10, at_once=3)
    question = sent(made)
    assert (question.places, question.messages, question.at_once) == (PLACES, 10, 3)
    assert (question.patience, question.until, question.is_busy) == (POLL_SECONDS_MAX, POLL_SECONDS_MAX, False)
    assert made.next(0.0, EMPTY) is None


def test_what_is_prefetched_already_is_not_requested_again() -> None:
    assert sent(waiting(10), holding=EMPTY._replace(ahead=4)).messages == 6
    assert waiting(10).next(0.0, EMPTY._replace(ahead=10)) is None


def test_the_credit_bounds_what_is_requested() -> None:
    question = sent(waiting(500), holding=Holding(0, 95, 5, 1_000))
    assert (question.messages, question.size, question.is_busy) == (5, 1_000, True)
    assert question.patience == SOON_SECONDS, "it takes all credit, and other partitions have none meanwhile"
    assert waiting(500).next(0.0, Holding(0, 100, 0, 1_000)) is None
    assert waiting(500).next(0.0, Holding(0, 100, 5, 0)) is None


def test_a_crowded_connection_is_not_held_long() -> None:
    question = waiting().next(0.0, EMPTY, is_crowded=True)
    assert question is not None
    assert question.patience == CROWDED_SECONDS


def test_a_partition_that_is_assigned_meanwhile_is_asked_at_once_by_itself() -> None:
    made = waiting()
    made.places = ("a",)
    sent(made)
    made.places = PLACES
    assert sent(made).places == ("b", "c")


def test_a_call_that_cannot_wait_as_long_asks_again() -> None:
    made = waiting()
    first = sent(made)
    made.calls[object()] = WaitingCall(10, 10, 1.0)
    assert sent(made).places == first.places


def test_a_partition_that_rests_is_asked_again_later_or_with_a_new_assignment() -> None:
    made = waiting()
    made.ended(sent(made))
    made.rest(["b"], now=0.0)
    assert sent(made).places == ("a", "c")
    assert made.next_deadline(EMPTY) == REST_SECONDS
    made.tick(REST_SECONDS)
    assert sent(made, now=REST_SECONDS).places == ("b",)
    made.rest(["b"], now=5.0)
    made.forget_rests()
    assert made.next_deadline(EMPTY) == math.inf


def test_a_message_that_is_delivered_alone_waits_until_everything_is_settled() -> None:
    made = waiting()
    made.arrived(sent(made), NOTHING)
    made.note_alone()
    busy = EMPTY._replace(in_flight=1)
    made.came_to_rest(busy)
    assert made.next(0.0, busy) is None
    made.came_to_rest(EMPTY)
    assert sent(made).is_busy is False


def test_a_call_that_cannot_be_asked_for_is_late_at_its_deadline() -> None:
    made = waiting(deadline=3.0)
    assert made.next_late(EMPTY) == 3.0
    sent(made)
    assert made.next_late(EMPTY) == math.inf, "the answer comes in time"


def test_one_prefetch_is_sent_and_none_beside_another_receive() -> None:
    made = requests()
    made.want_ahead(50)
    question = sent(made)
    assert (question.messages, question.at_once, question.patience) == (50, 0, SOON_SECONDS)
    assert not made.is_wanted
    made.want_ahead(50)
    assert made.next(0.0, EMPTY) is None


def test_the_batch_behind_is_requested_before_the_one_that_came_is_opened() -> None:
    made = waiting()
    made.want_steadily(10, ahead=0)
    made.arrived(sent(made), Arrived(10, 1_000, is_alone=False))
    behind = made.next_behind(0.0, EMPTY._replace(messages_free=15), Arrived(10, 1_000, is_alone=False))
    assert behind is not None
    assert (behind.messages, behind.size, behind.is_busy) == (5, BYTES_MAX, True)


@pytest.mark.parametrize("why", ["alone", "ahead", "partly taken", "not steady"])
def test_nothing_is_requested_behind_a_batch(why: str) -> None:
    made = waiting()
    made.want_steadily(0 if why == "not steady" else 10, ahead=1)
    holding = EMPTY._replace(ahead=int(why == "ahead"))
    arrived = Arrived(11 if why == "partly taken" else 10, 1_000, is_alone=why == "alone")
    assert made.next_behind(0.0, holding, arrived) is None


class AnyRun(RuleBasedStateMachine):
    """Whatever happens: no more is requested than may come, no partition is asked twice at the same patience."""

    def __init__(self) -> None:
        super().__init__()
        self.made = requests()
        self.now = 0.0
        self.in_flight = self.ahead = 0
        self.sent: dict[Question[str], bool] = {}

    @property
    def holding(self) -> Holding:
        return Holding(self.ahead, self.in_flight, 100 - self.in_flight, 10_000 - 100 * self.in_flight)

    @rule(messages=st.integers(1, 200), at_once=st.integers(0, 5), patience=st.floats(0, 20))
    def call(self, messages: int, at_once: int, patience: float) -> None:
        self.made.calls[object()] = WaitingCall(messages, at_once, self.now + patience)

    @precondition(lambda self: self.made.calls)
    @rule()
    def calls_end(self) -> None:
        self.made.calls.clear()

    @rule(count=st.integers(0, 200))
    def want_steadily(self, count: int) -> None:
        self.made.want_steadily(count, self.ahead)

    @rule(places=st.lists(st.sampled_from(PLACES), unique=True))
    def assign(self, places: list[str]) -> None:
        self.made.places = tuple(places)

    @rule(repeats=st.booleans())
    def ask(self, repeats: bool) -> None:
        self.made.came_to_rest(self.holding)
        question = self.made.next(self.now, self.holding)
        if question is not None:
            self._check(question)
            self.made.sent(question, repeats=repeats)
            self.sent[question] = repeats

    def _check(self, question: Question[str]) -> None:
        assert 0 < question.messages <= 100 - self.in_flight - sum(each.messages for each in self.sent)
        assert 0 < question.size <= self.holding.bytes_free - sum(each.size for each in self.sent)
        assert 0 <= question.patience <= POLL_SECONDS_MAX
        assert set(question.places) <= set(self.made.places)
        assert len(self.sent) < QUESTIONS_MAX
        assert question.at_once <= max((call.at_once for call in self.made.calls.values()), default=0)

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), alone=st.booleans())
    def answer(self, data: st.DataObject, alone: bool) -> None:
        question = data.draw(st.sampled_from(list(self.sent)))
        messages = data.draw(st.integers(0, question.messages))
        del self.sent[question]
        arrived = Arrived(messages, min(question.size, 100 * messages), is_alone=alone)
        self.made.arrived(question, arrived)
        following = self.made.next_behind(self.now, self.holding, arrived)
        self.in_flight, self.ahead = self.in_flight + messages, self.ahead + messages
        if following is not None:
            self._check(following)
            self.made.sent(following, repeats=False)
            self.sent[following] = False
        if alone:
            self.made.note_alone()
        self.made.calls.clear()

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        question = data.draw(st.sampled_from(list(self.sent)))
        del self.sent[question]
        self.made.rest(question.places, self.now)
        self.made.ended(question)

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        self.ahead = data.draw(st.integers(0, self.ahead))
        self.in_flight = data.draw(st.integers(self.ahead, max(self.ahead, self.in_flight)))

    @rule(seconds=st.floats(0, 3))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.made.tick(self.now)

    @invariant()
    def a_call_is_never_forgotten(self) -> None:
        """Something is under way, something can be sent, or there is a deadline at which it is looked at again."""
        if not self.made.calls or not self.made.places:
            return
        self.made.came_to_rest(self.holding)
        can_be_sent = self.made.next(self.now, self.holding) is not None
        if not (self.sent or can_be_sent):
            has_enough = self.ahead >= max(call.messages for call in self.made.calls.values())
            has_no_credit = self.holding.messages_free == 0 or self.holding.bytes_free == 0
            assert has_enough or has_no_credit or self.in_flight or self.made.next_deadline(self.holding) < math.inf


TestAnyRun = AnyRun.TestCase
