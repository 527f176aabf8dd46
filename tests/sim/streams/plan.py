"""What a seed decides for the members of a stream: how they read, when they commit, and how they end."""

from dataclasses import dataclass
from enum import Enum
from random import Random


class StreamHabit(Enum):
    """What a member of a stream does next."""

    RECEIVE = "take a batch, work on it, and go on"
    ITERATE = "`async for`, with work that takes a while"
    COMMIT = "take a batch, and commit all that was handed out"
    COMMIT_EACH = "take a batch, and commit behind one of its messages after the other"
    COMMIT_BACK = "take a batch, and commit behind one of its messages, then behind one before it"
    SEEK = "go on elsewhere"
    PAUSE = "take nothing of a partition for a while"
    DAWDLE = "take a batch, and work on it for as long as others wait for a partition"
    CLOSE = "leave with messages in work, and come back"
    DIE = "vanish with messages in work, and come back"


PLAIN = (StreamHabit.RECEIVE, StreamHabit.ITERATE)
COMMITTING = (StreamHabit.COMMIT, StreamHabit.COMMIT_EACH)


@dataclass(frozen=True, slots=True)
class StreamMemberPlan:
    habits: tuple[StreamHabit, ...]
    batch: int
    auto_commits: bool
    member_id: str | None = None

    def __str__(self) -> str:
        habits = ", ".join(sorted({habit.name for habit in self.habits}))
        return f"{self.batch} at once, commits {'by itself' if self.auto_commits else 'by hand'}: {habits}"


def drawn_stream_member(random: Random, member_id: str | None) -> StreamMemberPlan:
    """Whoever does not commit by itself does so by hand, or nothing would be done."""
    auto_commits = random.random() < 0.6
    virtues = PLAIN if auto_commits else COMMITTING
    vices = random.sample(list(StreamHabit), random.randint(1, 4))
    return StreamMemberPlan(
        habits=(*(random.choice(virtues) for _ in vices), *vices),
        batch=random.choice([1, 3, 20, 500]),
        auto_commits=auto_commits,
        member_id=member_id,
    )
