"""When a producer's messages leave, over all of its send queues: in rounds.

While answers are awaited, messages gather; when the last answer has come, all of them leave together. So batches
are as large as the time of an answer allows, and a busy broker is asked less often, not more: when each partition
was sent its next batch as soon as it was free, the broker was as busy at half of the load as at all of it. The send
queue limits how long a message gathers.

A message that comes when nothing is awaited leaves at once if such messages come alone, as from a program that
waits for each. Where several come in one turn of the event loop, the first waits for the others, until its end.
"""

from typing import Generic, TypeVar

RowT = TypeVar("RowT")


class SendRounds(Generic[RowT]):
    def __init__(self) -> None:
        self._awaited = 0
        self._calls = 0
        """The number of calls whose messages have left in this round."""
        self._held: dict[RowT, None] = {}
        self._come_alone = True

    @property
    def is_open(self) -> bool:
        """No answer is awaited."""
        return not self._awaited

    @property
    def leave_at_once(self) -> bool:
        """Whether a message that comes now has no others to wait for."""
        return not self._awaited and self._come_alone

    def hold(self, queue: RowT) -> None:
        """Messages wait in this send queue."""
        self._held[queue] = None

    def take_held(self) -> list[RowT]:
        held, self._held = list(self._held), {}
        return held

    def note_sent(self, calls: int) -> None:
        """A batch has left with messages of `calls` calls."""
        self._awaited += 1
        self._calls += calls

    def note_answered(self) -> bool:
        """An answer has come, or never will; returns whether it ends the round."""
        self._awaited -= 1
        assert self._awaited >= 0, "each batch is answered once"
        if self._awaited:
            return False
        self._come_alone = self._calls == 1 and not self._held
        self._calls = 0
        return True
