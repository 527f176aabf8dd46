"""The outcome of messages of several callers: each hears of its own, once."""

from goqueue.client.producing.answered import AnsweredOutcome
from goqueue.client.reading.message import Published
from goqueue.errors import Closed, DeliveryTimeout


class Caller:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def succeed(self, value: Published) -> None:
        self.heard.append(value)

    def fail(self, error: BaseException) -> None:
        self.heard.append(error)


def test_each_caller_hears_of_its_own_message_as_soon_as_it_is_settled() -> None:
    callers = [Caller() for _ in range(4)]
    outcome = AnsweredOutcome(callers, 0.0)
    error = Closed("it was closed")
    assert outcome.confirm([3, 0], "orders", 1, 7) == 2
    assert [caller.heard for caller in callers] == [[("orders", 1, 8)], [], [], [("orders", 1, 7)]]
    settled = [outcome.is_settled]
    assert outcome.fail([1], error) == 1
    assert outcome.settle(2, Published("orders", 0, None)) == 1
    assert [*settled, outcome.is_settled] == [False, True]
    assert [caller.heard for caller in callers[1:3]] == [[error], [("orders", 0, None)]]


def test_the_first_result_holds() -> None:
    callers = [Caller() for _ in range(2)]
    outcome = AnsweredOutcome(callers, 0.0)
    outcome.confirm(range(1), "orders", 0, None)
    late = DeliveryTimeout("too late")
    assert outcome.give_up(late) == 1
    assert outcome.confirm(range(2), "orders", 0, 5) == 0
    assert [caller.heard for caller in callers] == [[("orders", 0, None)], [late]]
