"""A producer's row for one partition, against a partition that forgets, refuses and answers late (G4, G11)."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.sendrow import BATCH_MESSAGES, LINGER_SECONDS, UNDER_WAY_MAX, OutBatch, SendRow


def row_with(*entries: str, now: float = 0.0) -> SendRow[str]:
    row: SendRow[str] = SendRow()
    for entry in entries:
        row.add(entry, 10, now)
    return row


def taken(row: SendRow[str], now: float = 0.0) -> OutBatch[str]:
    batch = row.next_batch(now)
    assert batch is not None
    return batch


def test_a_lone_message_leaves_at_once() -> None:
    row = row_with("a")
    assert row.next_deadline(0.0) == 0.0
    assert taken(row).entries == ["a"]


def test_messages_gather_while_others_are_under_way() -> None:
    row = row_with("a")
    taken(row)
    row.add("b", 10, 1.0)
    row.add("c", 10, 1.001)
    assert row.next_batch(1.001) is None
    assert row.next_deadline(1.001) == 1.0 + LINGER_SECONDS
    assert taken(row, 1.0 + LINGER_SECONDS).entries == ["b", "c"]


def test_enough_messages_or_bytes_do_not_wait() -> None:
    row = row_with("a")
    taken(row)
    for number in range(BATCH_MESSAGES):
        row.add(str(number), 10, 0.0)
    assert len(taken(row).entries) == BATCH_MESSAGES
    row.add("large", 64 * 1024, 0.0)
    assert taken(row).entries == ["large"]


def test_a_batch_takes_up_to_256_kib() -> None:
    row: SendRow[str] = SendRow()
    for number in range(10):
        row.add(str(number), 100 * 1024, 0.0)
    assert [len(taken(row).entries) for _ in range(5)] == [2, 2, 2, 2, 2]


def test_at_most_five_are_under_way() -> None:
    row: SendRow[str] = SendRow()
    for number in range(UNDER_WAY_MAX + 1):
        row.add(str(number), 300 * 1024, 0.0)
    batches = [taken(row) for _ in range(UNDER_WAY_MAX)]
    assert row.next_batch(0.0) is None
    assert row.next_deadline(0.0) is None
    row.confirmed(batches[0])
    assert taken(row).entries == ["5"]


def test_sequences_count_messages() -> None:
    row = row_with("a", "b")
    assert taken(row).sequence == 0
    row.add("c", 100 * 1024, 0.0)
    assert taken(row).sequence == 2


def test_an_unanswered_batch_is_sent_again_as_it_was_once_all_answers_are_in() -> None:
    row: SendRow[str] = SendRow()
    for number in range(3):
        row.add(str(number), 300 * 1024, 0.0)
    first, second, third = (taken(row) for _ in range(3))
    row.unanswered(first)
    row.unanswered(third)
    assert row.next_batch(0.0) is None, "the second may still be answered"
    row.unanswered(second)
    again = [taken(row) for _ in range(3)]
    assert [(batch.entries, batch.sequence) for batch in again] == [(["0"], 0), (["1"], 1), (["2"], 2)]
    assert row.next_batch(0.0) is None


def test_bad_records_fail_alone_and_the_rest_goes_again_in_order() -> None:
    row: SendRow[str] = SendRow()
    for entry in ("a", "bad", "b"):
        row.add(entry, 10, 0.0)
    first = taken(row)
    row.add("c", 100 * 1024, 0.0)
    second = taken(row)
    assert row.refused(first, {1}) == ["bad"]
    row.not_written(second)
    again = [taken(row), taken(row)]
    assert [(batch.entries, batch.sequence) for batch in again] == [(["a", "b"], 0), (["c"], 2)]


def test_what_may_have_been_written_before_the_partition_forgot_is_nobodys_guess() -> None:
    row: SendRow[str] = SendRow()
    for number in range(2):
        row.add(str(number), 300 * 1024, 0.0)
    first, second = taken(row), taken(row)
    row.unanswered(first)
    row.not_written(second)
    assert row.forgotten() == ["0"]
    again = taken(row)
    assert (again.entries, again.sequence) == (["1"], 0)


def test_dropping_gives_everything_that_is_not_settled() -> None:
    row = row_with("a")
    taken(row)
    row.add("b", 10, 0.0)
    assert (len(row), row.drop_all(), len(row)) == (2, ["a", "b"], 0)


class Partition:
    """Takes batches in sequence, answers a repeat as the first time, refuses gaps and bad messages."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.expected = 0
        self.seen: set[tuple[int, int]] = set()

    def take(self, sequence: int, entries: list[str]) -> str | set[int]:
        bad = {number for number, entry in enumerate(entries) if entry.startswith("bad")}
        if (sequence, len(entries)) in self.seen and sequence < self.expected:
            return "confirmed"
        if bad:
            return bad
        if sequence != self.expected:
            return "gap"
        self.log += entries
        self.expected += len(entries)
        self.seen.add((sequence, len(entries)))
        return "confirmed"


@given(st.lists(st.sampled_from(["good", "good", "good", "bad"]), min_size=1, max_size=60), st.integers(0, 2**32))
def test_every_good_message_is_written_once_and_in_order_however_the_line_behaves(
    kinds: list[str], seed: int
) -> None:
    random, partition = Random(seed), Partition()
    row: SendRow[str] = SendRow()
    entries = [f"{kind} {number}" for number, kind in enumerate(kinds)]
    waiting, failed, now = list(entries), [], 0.0
    line: list[tuple[OutBatch[str], int, list[str]]] = []
    while waiting or len(row):
        now += 0.002
        for _ in range(random.randint(0, 4)):
            if waiting:
                row.add(waiting.pop(0), random.choice([10, 70_000, 300_000]), now)
        while (batch := row.next_batch(now)) is not None:
            line.append((batch, batch.sequence, list(batch.entries)))
        cut = random.random() < 0.2
        heard = random.randint(0, len(line)) if cut else len(line)
        for number, (batch, sequence, content) in enumerate(
            line[: random.randint(heard, len(line)) if cut else None]
        ):
            answer = partition.take(sequence, content)
            if number >= heard:
                continue
            if answer == "confirmed":
                row.confirmed(batch)
            elif answer == "gap":
                row.not_written(batch)
            else:
                assert isinstance(answer, set)
                failed += row.refused(batch, answer)
        for batch, _, _ in line[heard:]:
            row.unanswered(batch)
        line.clear()
    assert partition.log == [entry for entry in entries if entry.startswith("good")]
    assert sorted(failed) == sorted(entry for entry in entries if entry.startswith("bad"))
