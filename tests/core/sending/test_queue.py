"""A producer's row for one partition, against a partition that forgets, refuses and answers late (G4, G11)."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.records.record import HEADER_SIZE, decode_records
from goqueue.core.sending.chunk import Chunk, Content
from goqueue.core.sending.queue import (
    BATCH_MESSAGES,
    BATCH_MESSAGES_MAX,
    LINGER_SECONDS,
    UNDER_WAY_MAX,
    Gathering,
    OutBatch,
    SendQueue,
)
from tests.steps import steps_of


def chunk_of(*names: str, size: int = 10) -> Chunk:
    """Messages of this size on their way, known by their names."""
    values = [name.encode().ljust(size - HEADER_SIZE) for name in names]
    return Chunk(None, Content(0), values, range(len(names)))


def names_in(chunks: list[Chunk]) -> list[str]:
    return [(value or b"").decode().strip() for chunk in chunks for value in chunk.values]


def names_of(batch: OutBatch) -> list[str]:
    return names_in(batch.chunks)


def row_with(*names: str, now: float = 0.0) -> SendQueue:
    queue = SendQueue()
    for name in names:
        queue.add(chunk_of(name), now)
    return queue


def taken(queue: SendQueue, now: float = 0.0) -> OutBatch:
    batch = queue.next_batch(now)
    assert batch is not None
    return batch


def test_a_lone_message_leaves_at_once() -> None:
    queue = row_with("a")
    assert queue.next_deadline(0.0) == 0.0
    assert names_of(taken(queue)) == ["a"]


def test_messages_gather_while_others_are_under_way() -> None:
    queue = row_with("a")
    taken(queue)
    queue.add(chunk_of("b", size=10), 1.0)
    queue.add(chunk_of("c", size=10), 1.001)
    assert queue.next_batch(1.001) is None
    assert queue.next_deadline(1.001) == 1.0 + LINGER_SECONDS
    assert names_of(taken(queue, 1.0 + LINGER_SECONDS)) == ["b", "c"]


def test_enough_bytes_do_not_wait() -> None:
    queue = row_with("a")
    taken(queue)
    queue.add(chunk_of("large", size=64 * 1024), 0.0)
    assert names_of(taken(queue)) == ["large"]


def test_enough_messages_wait_for_answers_no_longer_than_5_ms_however_long_fewer_may_linger() -> None:
    queue = SendQueue(Gathering(linger_seconds=60))
    queue.add(chunk_of("a"), 0.0)
    taken(queue)
    for number in range(BATCH_MESSAGES - 1):
        queue.add(chunk_of(str(number), size=10), 1.0)
    assert queue.next_deadline(1.0) == 61.0
    queue.add(chunk_of("one more", size=10), 1.001)
    assert queue.next_deadline(1.001) == 1.0 + LINGER_SECONDS
    assert taken(queue, 1.0 + LINGER_SECONDS).count == BATCH_MESSAGES


def test_messages_gather_while_those_of_other_rows_are_under_way() -> None:
    queue = row_with("a")
    assert queue.next_batch(0.0, others_under_way=True) is None
    assert queue.next_deadline(0.0, others_under_way=True) == LINGER_SECONDS
    assert names_of(taken(queue)) == ["a"]


def test_only_the_first_that_waits_and_the_one_that_makes_it_enough_may_let_something_leave() -> None:
    queue = row_with("a")
    taken(queue)
    answers = [queue.add(chunk_of(str(number), size=10), 0.0) for number in range(BATCH_MESSAGES + 1)]
    assert [number for number, may_leave in enumerate(answers) if may_leave] == [0, BATCH_MESSAGES - 1]
    assert queue.add(chunk_of("large", size=64 * 1024), 0.0)
    assert queue.add(chunk_of("behind it", size=10), 0.0)


def test_a_batch_takes_up_to_256_kib() -> None:
    queue = SendQueue()
    for number in range(10):
        queue.add(chunk_of(str(number), size=100 * 1024), 0.0)
    assert [taken(queue).count for _ in range(5)] == [2, 2, 2, 2, 2]


def test_at_most_five_are_under_way() -> None:
    queue = SendQueue()
    for number in range(UNDER_WAY_MAX + 1):
        queue.add(chunk_of(str(number), size=300 * 1024), 0.0)
    batches = [taken(queue) for _ in range(UNDER_WAY_MAX)]
    assert queue.next_batch(0.0) is None
    assert queue.next_deadline(0.0) is None
    queue.confirmed(batches[0])
    assert names_of(taken(queue)) == ["5"]


def test_sequences_count_messages() -> None:
    queue = row_with("a", "b")
    assert taken(queue).sequence == 0
    queue.add(chunk_of("c", size=100 * 1024), 0.0)
    assert taken(queue).sequence == 2


def test_an_unanswered_batch_is_sent_again_as_it_was_once_all_answers_are_in() -> None:
    queue = SendQueue()
    for number in range(3):
        queue.add(chunk_of(str(number), size=300 * 1024), 0.0)
    first, second, third = (taken(queue) for _ in range(3))
    queue.unanswered(first)
    queue.unanswered(third)
    assert queue.next_batch(0.0) is None, "the second may still be answered"
    queue.unanswered(second)
    again = [taken(queue) for _ in range(3)]
    assert [(names_of(batch), batch.sequence) for batch in again] == [(["0"], 0), (["1"], 1), (["2"], 2)]
    assert queue.next_batch(0.0) is None


def test_an_adopted_batch_goes_first_as_it_is_and_others_follow_its_sequence() -> None:
    """G11: it was sent by other means, and may have been written."""
    queue = SendQueue()
    queue.adopt(OutBatch([chunk_of("a")], 1, sequence=41, is_sent=True))
    queue.add(chunk_of("b"), 0.0)
    adopted = taken(queue)
    assert (names_of(adopted), adopted.sequence, adopted.attempt) == (["a"], 41, 2)
    assert queue.next_batch(0.0) is None
    queue.confirmed(adopted)
    assert taken(queue).sequence == 42


def test_what_was_refused_for_now_is_due_at_once_when_every_answer_has_come() -> None:
    queue = row_with("refused")
    first = taken(queue)
    queue.add(chunk_of("behind", size=100 * 1024), 0.0)
    second = taken(queue)
    queue.not_written(first)
    assert queue.next_deadline(1.0) is None
    queue.not_written(second)
    assert queue.next_deadline(1.0) == 1.0


def test_bad_records_fail_alone_and_the_rest_goes_again_in_order() -> None:
    queue = SendQueue()
    for entry in ("a", "bad", "b"):
        queue.add(chunk_of(entry, size=10), 0.0)
    first = taken(queue)
    queue.add(chunk_of("c", size=100 * 1024), 0.0)
    second = taken(queue)
    assert names_in(queue.refused(first, {1})) == ["bad"]
    queue.not_written(second)
    again = [taken(queue), taken(queue)]
    assert [(names_of(batch), batch.sequence) for batch in again] == [(["a", "b"], 0), (["c"], 2)]


def test_what_may_have_been_written_before_the_partition_forgot_is_nobodys_guess() -> None:
    queue = SendQueue()
    for number in range(2):
        queue.add(chunk_of(str(number), size=300 * 1024), 0.0)
    first, second = taken(queue), taken(queue)
    queue.unanswered(first)
    queue.not_written(second)
    assert names_in(queue.forgotten()) == ["0"]
    again = taken(queue)
    assert (names_of(again), again.sequence) == (["1"], 0)


def test_dropping_gives_everything_that_is_not_settled() -> None:
    queue = row_with("a")
    taken(queue)
    queue.add(chunk_of("b", size=10), 0.0)
    assert (len(queue), names_in(queue.drop_all()), len(queue)) == (2, ["a", "b"], 0)


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
    """O1"""
    random, partition = Random(seed), Partition()
    queue = SendQueue()
    entries = [f"{kind} {number}" for number, kind in enumerate(kinds)]
    waiting, failed, now = list(entries), [], 0.0
    line: list[tuple[OutBatch, int, list[str]]] = []
    while waiting or len(queue):
        now += 0.002
        for _ in range(random.randint(0, 4)):
            together = waiting[: random.randint(1, 4)]
            del waiting[: len(together)]
            if together:
                queue.add(chunk_of(*together, size=random.choice([42, 70_000, 300_000])), now)
        while (batch := queue.next_batch(now)) is not None:
            line.append((batch, batch.sequence, names_of(batch)))
        cut = random.random() < 0.2
        heard = random.randint(0, len(line)) if cut else len(line)
        for number, (batch, sequence, content) in enumerate(
            line[: random.randint(heard, len(line)) if cut else None]
        ):
            answer = partition.take(sequence, content)
            if number >= heard:
                continue
            if answer == "confirmed":
                queue.confirmed(batch)
            elif answer == "gap":
                queue.not_written(batch)
            else:
                assert isinstance(answer, set)
                failed += names_in(queue.refused(batch, answer))
        for batch, _, _ in line[heard:]:
            queue.unanswered(batch)
        line.clear()
    assert partition.log == [entry for entry in entries if entry.startswith("good")]
    assert sorted(failed) == sorted(entry for entry in entries if entry.startswith("bad"))


def test_what_was_sent_together_stays_together_unless_it_is_larger_than_a_batch() -> None:
    queue = SendQueue()
    for call in range(3):
        queue.add(chunk_of(*(f"{call}-{number}" for number in range(10)), size=15_000), 0.0)
    assert [taken(queue).count for _ in range(3)] == [10, 10, 10]
    queue = SendQueue()
    queue.add(chunk_of(*(str(number) for number in range(40)), size=10_000), 0.0)
    batches = [taken(queue), taken(queue)]
    assert [batch.count for batch in batches] == [26, 14]
    assert [name for batch in batches for name in names_of(batch)] == [str(number) for number in range(40)]


def test_a_batch_has_a_bounded_number_of_messages() -> None:
    queue = SendQueue()
    queue.add(Chunk(None, Content(0), [b""] * (BATCH_MESSAGES_MAX + 1), range(BATCH_MESSAGES_MAX + 1)), 0.0)
    queue.add(chunk_of("last"), 0.0)
    counts = [taken(queue).count, taken(queue, 1.0).count]
    assert all(count <= BATCH_MESSAGES_MAX for count in counts)
    assert sum(counts) == BATCH_MESSAGES_MAX + 2


def test_what_is_too_old_is_given_up_and_it_is_said_what_may_have_been_written() -> None:
    queue = SendQueue()
    for name in ("refused", "sent"):
        queue.add(chunk_of(name, size=300 * 1024), 0.0)
    refused, _ = taken(queue), taken(queue)
    queue.not_written(refused)
    queue.add(chunk_of("old"), 2.0)
    queue.add(chunk_of("young"), 3.0)
    expired = queue.expire(12.0, 10.0)
    assert (names_in(expired.unwritten), names_in(expired.unknown)) == (["refused", "old"], ["sent"])
    assert expired.begins_anew
    again = taken(queue, 9.0)
    assert (names_of(again), again.sequence) == (["young"], 0)


@pytest.mark.parametrize("is_sent", [True, False])
def test_one_that_is_late_leaves_a_younger_one_of_its_batch_alone(*, is_sent: bool) -> None:
    """They have been on their way together since the younger one came."""
    queue = SendQueue()
    queue.add(chunk_of("first", size=300 * 1024), 0.0)
    first = taken(queue)
    for name, now in (("late", 1.0), ("young", 4.0)):
        chunk = chunk_of(name)
        chunk.call = name
        queue.add(chunk, now)
    queue.confirmed(first)
    batch = taken(queue, 4.0)
    assert names_of(batch) == ["late", "young"]
    if not is_sent:
        queue.not_written(batch)
    expired = queue.expire(11.0, 10.0)
    assert (names_in(expired.unknown), names_in(expired.unwritten)) == (
        (["late"], []) if is_sent else ([], ["late"])
    )
    assert not expired.begins_anew
    assert names_in(queue.expire(13.0, 10.0).unknown) == []
    expired = queue.expire(14.0, 10.0)
    assert "young" in names_in(expired.unknown if is_sent else expired.unwritten)


def test_one_that_is_late_takes_none_of_those_behind_it_along() -> None:
    """Nobody waits for it any more, but what may be written behind it goes by its sequence."""
    queue = SendQueue()
    queue.add(chunk_of("late", size=300 * 1024), 0.0)
    late = taken(queue)
    queue.add(chunk_of("young", size=300 * 1024), 8.0)
    young = taken(queue, 8.0)
    expired = queue.expire(10.0, 10.0)
    assert (names_in(expired.unwritten), names_in(expired.unknown)) == ([], ["late"])
    assert not expired.begins_anew
    assert len(queue) == 1
    assert queue.expire(11.0, 10.0).unknown == []
    for batch in (late, young):
        queue.unanswered(batch)
    again = [taken(queue, 12.0), taken(queue, 12.0)]
    assert [(names_of(batch), batch.sequence) for batch in again] == [(["late"], 0), (["young"], 1)]
    queue.confirmed(late)
    queue.confirmed(young)
    assert len(queue) == 0


def test_when_the_last_of_them_is_late_the_row_begins_anew_and_nobody_hears_twice() -> None:
    queue = SendQueue()
    for name, now in (("first", 0.0), ("second", 5.0)):
        queue.add(chunk_of(name, size=300 * 1024), now)
        taken(queue, now)
    assert names_in(queue.expire(10.0, 10.0).unknown) == ["first"]
    expired = queue.expire(15.0, 10.0)
    assert (names_in(expired.unknown), expired.begins_anew) == (["second"], True)
    queue.add(chunk_of("third"), 16.0)
    assert taken(queue, 16.0).sequence == 0


def test_what_was_given_up_is_not_given_back_when_it_is_refused_or_all_is_dropped() -> None:
    queue = SendQueue()
    for name, now in (("first", 0.0), ("second", 5.0)):
        queue.add(chunk_of(name, size=300 * 1024), now)
    first, second = taken(queue), taken(queue, 5.0)
    queue.expire(10.0, 10.0)
    assert queue.refused(first, [0]) == []
    queue.not_written(second)
    assert (names_of(again := taken(queue, 11.0)), again.sequence) == (["second"], 0)
    assert names_in(queue.drop_all()) == ["second"]


def test_nothing_begins_anew_for_the_sake_of_what_was_never_sent() -> None:
    queue = row_with("young", now=3.0)
    taken(queue, 3.0)
    queue.add(chunk_of("old"), 1.0)
    assert names_in(queue.expire(12.0, 10.0).unwritten) == ["old"]
    assert not queue.expire(12.0, 10.0).begins_anew
    assert len(queue) == 1


def test_the_records_of_a_batch_are_numbered_through() -> None:
    queue = row_with("a", "b", "c")
    batch = taken(queue)
    assert [record.offset for record in decode_records(batch.body(), batch.count, 7)] == [7, 8, 9]


# Calls that give up before the others


def calls_with(queue: SendQueue, *names: str, size: int = 10, now: float = 0.0) -> dict[str, object]:
    """A call for each message."""
    calls = {name: object() for name in names}
    for name, call in calls.items():
        queue.add(replace(chunk_of(name, size=size), call=call), now)
    return calls


def test_a_call_that_gives_up_takes_back_what_was_not_sent() -> None:
    queue = SendQueue()
    calls = calls_with(queue, "a")
    taken(queue)
    calls |= calls_with(queue, "b", "c")
    expired = queue.withdraw(calls["b"], 1)
    assert (names_in(expired.unwritten), expired.unknown, expired.begins_anew) == (["b"], [], False)
    assert names_in(queue.drop_all()) == ["a", "c"]


def test_what_was_refused_for_now_is_taken_back_out_of_its_batch() -> None:
    queue = SendQueue()
    calls = calls_with(queue, "first")
    first = taken(queue)
    calls |= calls_with(queue, "a", "b")
    queue.confirmed(first)
    batch = taken(queue)
    queue.not_written(batch)
    expired = queue.withdraw(calls["a"], 1)
    assert (names_in(expired.unwritten), expired.unknown) == (["a"], [])
    assert (names_of(again := taken(queue)), again.sequence) == (["b"], 1)


def test_what_was_sent_is_unknown_and_stays_while_another_call_waits_for_its_batch() -> None:
    queue = SendQueue()
    first = calls_with(queue, "first")
    taken(queue)
    calls = calls_with(queue, "a", "b", now=0.0)
    queue.confirmed(queue._under_way[0])
    batch = taken(queue)
    assert names_in(queue.withdraw(calls["a"], 1).unknown) == ["a"]
    queue.unanswered(batch)
    assert names_of(taken(queue)) == ["a", "b"]
    assert first


def test_a_batch_that_nobody_waits_for_is_not_sent_again() -> None:
    queue = SendQueue()
    calls = calls_with(queue, "a")
    taken(queue)
    expired = queue.withdraw(calls["a"], 1)
    assert (names_in(expired.unknown), expired.begins_anew) == (["a", "a"], True)
    calls_with(queue, "b")
    assert (names_of(again := taken(queue)), again.sequence) == (["b"], 0)


@given(st.integers(1, 40), st.integers(0, 2**32))
def test_what_is_said_of_a_call_that_gave_up_holds_however_the_line_behaves(count: int, seed: int) -> None:
    """G11: unwritten stays unwritten, unknown is there once at most, and all others are there once, in order."""
    random, queue = Random(seed), SendQueue()
    partitions, written = [Partition()], list[str]()
    waiting, calls = [f"good {number}" for number in range(count)], dict[str, object]()
    unwritten, unknown = set[str](), set[str]()
    line: list[tuple[OutBatch, int, int, list[str], Partition]] = []
    now = 0.0
    while waiting or len(queue):
        now += 0.002
        for _ in range(random.randint(0, 4)):
            if waiting:
                calls |= calls_with(queue, waiting.pop(0), size=random.choice([42, 70_000, 300_000]), now=now)
        for sends in (False, True):
            while sends and (batch := queue.next_batch(now)) is not None:
                line.append((batch, batch.attempt, batch.sequence, names_of(batch), partitions[-1]))
            for name in [name for name in calls if random.random() < 0.1]:
                expired = queue.withdraw(calls.pop(name), 1)
                unwritten |= set(names_in(expired.unwritten))
                unknown |= set(names_in(expired.unknown))
                if expired.begins_anew:
                    partitions.append(Partition())
        is_cut, is_full = random.random() < 0.2, random.random() < 0.2
        heard = random.randint(0, len(line)) if is_cut else len(line)
        for number, (batch, attempt, sequence, content, partition) in enumerate(line):
            if is_cut and number >= heard and random.random() < 0.5:
                is_full = True  # lost on its way, and so is everything behind it
            before = len(partition.log)
            answer = "full" if is_full else partition.take(sequence, content)
            written += partition.log[before:]
            if not queue.awaits(batch, attempt):
                continue
            if number >= heard:
                queue.unanswered(batch)
            elif answer == "confirmed":
                queue.confirmed(batch)
                calls = {name: call for name, call in calls.items() if name not in content}
            else:
                queue.not_written(batch)
        line.clear()
    assert not unwritten & set(written)
    assert len(written) == len(set(written))
    certain = [name for name in (f"good {number}" for number in range(count)) if name not in unwritten | unknown]
    assert [name for name in written if name in certain] == certain


def each_by_itself(batch: OutBatch, bad: set[int]) -> tuple[list[str], list[str]]:
    names = names_of(batch)
    return [names[each] for each in sorted(bad)], [name for at, name in enumerate(names) if at not in bad]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_a_batch_is_split_as_each_record_by_itself(sizes: list[int], data: st.DataObject) -> None:
    chunks = [chunk_of(*(f"{number}-{at}" for at in range(size))) for number, size in enumerate(sizes)]
    batch = OutBatch(chunks, sum(sizes))
    bad = data.draw(st.sets(st.integers(0, sum(sizes) - 1)))
    dropped, kept = batch.split(bad)
    assert (names_in(dropped), names_in(kept)) == each_by_itself(batch, bad)


def test_the_cost_of_a_split_rises_with_the_records_alone() -> None:
    """A repeat of ten thousand messages with ids, each refused by itself, was a stall of seconds."""

    def split(count: int) -> int:
        batch = OutBatch([chunk_of(f"{number}") for number in range(count)], count)
        return steps_of(lambda: batch.split(range(count)))

    assert split(400) < 3 * split(200)
