"""What the handlers of workers saw: a message counts as delivered if one began with it, and only then.

A worker tells the broker that a handler begins, and does not wait for the answer. So three things are known of a
delivery: nothing was told, then it does not count; it was told, then it may count; a handler began with it on a
sound line to a broker at work, then it counts, whatever becomes of the worker.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import trio

from goqueue.client.consuming.delivery import DeliveredMessage, LeasedMessage
from tests.sim.clients.history import Place
from tests.sim.disk.history import Violation
from tests.sim.groups.history import GroupHistory, place_of
from tests.sim.groups.letters import DeadLetter
from tests.sim.groups.stories import Held

ON_ITS_WAY_SECONDS = 1.0
"""What was told this shortly before the broker ended may not have arrived."""
OPENING_SECONDS = 0.3
"""A broker that has just started may refuse for so long what is said to a partition; it is said again."""


@dataclass(slots=True)
class WorkerHistory(GroupHistory):
    _told: set[tuple[Place, int]] = field(default_factory=set)
    """The attempts of which the broker was told, or perhaps, that they begin."""
    _started_at: float = 0.0

    def __post_init__(self) -> None:
        self._has_given_back = True  # what is held ahead for too long goes back, and comes again

    def note_start(self) -> None:
        self._started_at = trio.current_time()

    def tell(self, messages: Iterable[LeasedMessage]) -> None:
        self._told.update((place_of(message), message.attempt) for message in messages)

    def begin(
        self,
        holder: str,
        member: str | None,
        message: DeliveredMessage,
        visibility: float,
        *,
        is_prompt: bool,
        is_sound: bool,
    ) -> Held:
        """`is_sound`: nothing is wrong with the lines of the worker, nor with the disk of the broker."""
        before = (place_of(message), message.attempt - 1)
        if message.attempt > 1 and before not in self._told:
            raise Violation(f"§6: {message.receipt} counts a delivery with which no handler had begun")
        [held] = self.hand(holder, member, [message], visibility, is_extended=True, is_prompt=is_prompt)
        if not is_sound or trio.current_time() < self._started_at + OPENING_SECONDS:
            self.stories[held.place].may_not_count(held)
        return held

    def may_not_count(self, helds: Iterable[Held]) -> None:
        """Perhaps the broker never heard that these began."""
        for held in helds:
            self.stories[held.place].may_not_count(held)

    def lose_members(self) -> None:
        GroupHistory.lose_members(self)
        latest = (held for story in self.stories.values() for held in story.deliveries[-1:])
        self.may_not_count(held for held in latest if held.at > trio.current_time() - ON_ITS_WAY_SECONDS)

    def check_end(self, letters: Collection[DeadLetter]) -> None:
        GroupHistory.check_end(self, letters)
        for letter in letters:
            seen = {held.attempt for held in self.stories[letter.origin].receipts.values()}
            if letter.headers.attempts not in seen and (letter.origin, letter.headers.attempts) not in self._told:
                raise Violation(f"§6: {letter.headers} is a dead letter, and no handler had begun with it")
