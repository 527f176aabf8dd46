"""How long messages wait after a nack: doubling, bounded, and with jitter not all equally long."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import PIECES_MAX, SHARES, LedgerSettings, backoff, waits
from tests.core.ledger.test_delivering import Desk, run

NONCE = 0xC0FFEE
seconds = st.floats(0, 43_200)


@st.composite
def some_runs(draw: st.DrawFn) -> list[AttemptRun]:
    """Runs behind each other, on whatever attempts."""
    found, offset = list[AttemptRun](), 0
    for gap, size, attempt in draw(
        st.lists(st.tuples(st.integers(1, 9), st.integers(1, 500), st.integers(1, 50)), min_size=1, max_size=8)
    ):
        found.append(AttemptRun(offset + gap, offset + gap + size - 1, attempt))
        offset += gap + size
    return found


@given(some_runs(), seconds, seconds, st.floats(0, 1), st.integers(0, 2**48))
def test_each_message_waits_once_and_not_longer_and_at_most_by_the_jitter_shorter_than_without(
    runs: list[AttemptRun], first: float, longest: float, jitter: float, nonce: int
) -> None:
    found = waits(nonce, runs, first, longest, jitter)
    pieces = [(each, delay) for delay, some in found for each in some]
    covered = sorted(offset for each, _ in pieces for offset in range(each.first, each.last + 1))
    assert covered == [offset for each in runs for offset in range(each.first, each.last + 1)]
    for each, delay in pieces:
        whole = backoff(each.attempt, first, longest)
        assert whole * (1 - jitter) - 1e-9 * whole <= delay <= whole <= longest
        assert any(of.first <= each.first <= each.last <= of.last and of.attempt == each.attempt for of in runs)
    assert len(pieces) <= PIECES_MAX * len(runs)
    assert len(found) <= SHARES * len({each.attempt for each in runs})
    assert found == waits(nonce, runs, first, longest, jitter)


def test_messages_that_failed_together_are_spread_over_the_jitter() -> None:
    single = [
        delay for offset in range(500) for delay, _ in waits(NONCE, [AttemptRun(offset, offset, 3)], 1, 60, 0.5)
    ]
    together = [delay for delay, _ in waits(NONCE, [AttemptRun(0, 499, 3)], 1, 60, 0.5)]
    for delays in (single, together):
        assert min(delays) < 2.3
        assert max(delays) > 3.7
        assert len(set(delays)) > 12
    assert 2.8 < sum(single) / len(single) < 3.2


def test_without_jitter_a_nack_of_many_is_one_wait() -> None:
    assert waits(NONCE, [AttemptRun(0, 4_000, 2)], 1, 60, 0) == [(2.0, (AttemptRun(0, 4_000, 2),))]


def test_any_first_wait_reaches_the_longest_one() -> None:
    assert backoff(40, 0.001, 43_200.0) == 43_200.0


def test_a_replay_waits_as_long_as_it_was_decided_though_the_settings_have_changed() -> None:
    """The wait is in the entry."""
    desk = Desk(max_deliveries=0)
    desk.ledger.settings = LedgerSettings(0, jitter=0.5)
    nonce = desk.receive(10)
    nacked, _ = desk.ledger.nack(desk.now, nonce, [run(0, 9)], None, "")
    assert nacked is not None
    snapshot = desk.ledger.snapshot(desk.now)
    read = Entry.from_plain(nacked.to_plain())
    due = []
    for settings in (desk.ledger.settings, LedgerSettings(backoff_first=30.0)):
        replayed = Ledger.restore(snapshot, settings, desk.now)
        replayed.apply(read, desk.now)
        due.append(replayed.next_deadline())
    assert due[0] == due[1]
    assert desk.now + 0.5 <= (due[0] or 0) < desk.now + 1
