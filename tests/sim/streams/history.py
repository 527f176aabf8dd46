"""What the members of one stream did and saw, and the guarantees that follow from it (G4, G5, G10).

Each partition is read in its order by one consumer after the other. A consumer's time with a partition is its
tenure: it begins with the first message and ends when the consumer has let go, closes or dies, or the broker ends.
What nothing can disturb is certain, and only of that more is asked than what holds always.
"""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import trio

import goqueue
from tests.sim.clients.history import Place
from tests.sim.disk.history import Violation
from tests.sim.groups.book import GroupBook
from tests.sim.groups.letters import DeadLetter
from tests.sim.streams.plan import StreamMemberPlan
from tests.sim.streams.progress import Progress
from tests.sim.streams.reading import Key, Reading, Spot


@dataclass(slots=True)
class Tenure:
    reading: Reading
    since: float
    generation: int
    is_open: bool = True

    def renew(self, generation: int) -> None:
        """It has the partition still, or again."""
        self.is_open = True
        if generation > self.generation:
            self.generation, self.since = generation, trio.current_time()

    def __str__(self) -> str:
        return f"{self.reading} (from {self.since:.3f} on, in generation {self.generation})"


@dataclass(slots=True)
class Said:
    """A commit of one partition that somebody asks for."""

    key: Key
    option: int
    offset: int
    is_asked: bool
    """The broker is asked: it does not stand there already, as far as the consumer knows."""


@dataclass(slots=True)
class StreamHistory(GroupBook):
    handled: set[Place] = field(default_factory=set)
    """Somebody was handed it, and has asked for more, or committed it, or sought elsewhere."""
    skipped: set[Place] = field(default_factory=set)
    """Somebody has sought behind it."""
    _progress: dict[Key, Progress] = field(default_factory=dict)
    _tenures: dict[Key, Tenure] = field(default_factory=dict)
    _readings: list[Reading] = field(default_factory=list)

    def open(self, holder: str, plan: StreamMemberPlan, *, has_steady_lines: bool) -> Reading:
        reading = Reading(holder, plan.member_id, plan.auto_commits, has_steady_lines)
        self._readings.append(reading)
        return reading

    def close(self, reading: Reading) -> None:
        """It begins to leave, or is dead."""
        self._readings.remove(reading)
        self.let_go(reading, list(reading.spots))

    def progress_of(self, key: Key) -> Progress:
        if key not in self._progress:
            self._progress[key] = Progress([0 if self.setup.start == "earliest" else None])
        return self._progress[key]

    # Who has what

    def let_go(self, reading: Reading, partitions: Iterable[Key]) -> None:
        for key in partitions:
            tenure = self._tenures.get(key)
            if tenure is not None and tenure.reading is reading:
                tenure.is_open = False
        reading.lose(partitions)

    def _is_certain(self, tenure: Tenure) -> bool:
        """Nobody may take it away, but by asking for it."""
        reading = tenure.reading
        is_free = reading.has_steady_lines and not self.has_others(reading.member, reading.holder)
        return is_free and tenure.is_open and tenure.generation > reading.generation_before

    def _check_tenure(self, reading: Reading, key: Key, generation: int) -> bool:
        """§5: a partition comes to the next when the one before has let go of it. False: it reads on what it has
        lost, which it has not heard yet."""
        before = self._tenures.get(key)
        if before is not None and before.reading is reading:
            before.renew(generation)
            return True
        if before is not None and generation < before.generation:
            return False
        if before is not None and self._is_certain(before):
            raise Violation(f"G10: {key} is handed to {reading} in {generation}, while {before} has it")
        self._tenures[key] = Tenure(reading, trio.current_time(), generation)
        return True

    # What is handed out

    def hand(self, reading: Reading, message: goqueue.Message, generation: int) -> None:
        self.clients.see(message)
        key, offset = (message.topic, message.partition), message.offset
        spot = reading.spots.get(key)
        if spot is None or spot.is_paused:
            raise Violation(f"§5: {reading} is handed {offset} of {key}, which it does not have, or has paused")
        if self._check_tenure(reading, key, generation):
            self._check_place(spot, key, offset)
            self._offer_handled(reading, key)  # it may have the partition again, as if it had never gone
        elif offset != spot.next and offset not in self.progress_of(key).options:
            raise Violation(f"G4: {reading} is handed {offset} of {key}, and {spot.next} is next")
        spot.hand(offset)

    def _check_place(self, spot: Spot, key: Key, offset: int) -> None:
        """G4, G5: one behind the other, from where the group stands."""
        if offset == spot.next:
            return
        progress = self.progress_of(key)
        if not progress.may_stand_at(offset, spot.since) and not self._may_be_back(key, offset):
            raise Violation(
                f"G4, G5: {offset} of {key} is handed out; {spot.next} is next, committed is {progress}"
            )
        self._check_passed(key, offset)
        spot.move_to(offset)

    def _may_be_back(self, key: Key, offset: int) -> bool:
        """A consumer that was away for a while may have the partition again, and may have committed."""
        for reading in self._readings:
            spot = reading.spots.get(key)
            may_be_away = reading.auto_commits and not reading.has_steady_lines
            if may_be_away and spot is not None and spot.handled == offset:
                self.progress_of(key).offer(offset)
                return True
        return False

    # What programs say

    def ask(self, reading: Reading) -> None:
        """For more: all that was handed out is handled, and may be committed by itself."""
        for key, spot in reading.spots.items():
            if spot.next is not None:
                self._note_handled(key, spot.end_work(spot.next))
                self._offer_handled(reading, key)

    def seek(self, reading: Reading, key: Key, offset: int) -> None:
        """Whatever lies in between the program does not want."""
        spot = reading.spots[key]
        for passed in range(spot.next or 0, offset):
            self.skipped.add(Place(*key, passed))
        self._note_handled(key, spot.move_to(offset))
        self._offer_handled(reading, key)

    def begin_commit(self, reading: Reading, key: Key, offset: int, *, is_asked: bool) -> Said:
        self._note_handled(key, reading.spots[key].end_work(offset))
        said = Said(key, self.progress_of(key).offer(offset), offset, is_asked)
        self._offer_handled(reading, key)
        return said

    def _note_handled(self, key: Key, offsets: Iterable[int]) -> None:
        self.handled.update(Place(*key, offset) for offset in offsets)

    def _offer_handled(self, reading: Reading, key: Key) -> None:
        """What a consumer commits by itself. One that has lost the partition commits nothing there."""
        tenure, handled = self._tenures.get(key), reading.spots[key].handled
        is_lost = tenure is not None and tenure.reading is not reading and self._is_certain(tenure)
        if reading.auto_commits and handled is not None and not is_lost:
            self.progress_of(key).offer(handled)

    def end_commit(self, reading: Reading, said: Said, begun_at: float) -> None:
        """It was answered that this is committed."""
        if not said.is_asked:
            return
        if self.is_replaced(reading.member, reading.holder, begun_at):
            raise Violation(f"§5: {reading} has committed {said.offset} of {said.key}, and was replaced before")
        tenure = self._tenures.get(said.key)
        if tenure is not None and tenure.reading is not reading:
            if self._is_certain(tenure) and tenure.since < begun_at:
                raise Violation(f"§5: {reading} has committed {said.offset} of {said.key}, which {tenure} has")
        elif self.counts(begun_at):
            self.progress_of(said.key).settle(said.option)

    def refuse_commit(self, reading: Reading, keys: Iterable[Key], begun_at: float) -> None:
        """§5: nobody else has it, and nobody was asked to let go of it."""
        tenures = [self._tenures.get(key) for key in keys if key not in reading.owed]
        reading.owed.difference_update(keys)
        ours = [each for each in tenures if each is not None and each.reading is reading]
        if ours and len(ours) == len(tenures) and all(self._is_certain(each) for each in ours):
            raise Violation(f"§5: a commit of {list(keys)} by {reading} from {begun_at:.3f} on is refused")

    # What happens to the broker

    def lose_members(self) -> None:
        """Whoever comes back first may have any of them, and commits how far it was."""
        GroupBook.lose_members(self)
        for reading in self._readings:
            reading.generation_before = reading.generation()
            for key, spot in reading.spots.items():
                if reading.auto_commits and spot.handled is not None:
                    self.progress_of(key).offer(spot.handled)

    def lose_power(self) -> None:
        GroupBook.lose_power(self)
        for (topic, partition), progress in self._progress.items():
            kept = [each.offset for each in self.clients.kept if each[:2] == (topic, partition)]
            progress.lose_power(max(kept, default=-1) + 1)

    def lose_ledger(self, key: Key, before: int, is_told: Callable[[str, int], bool]) -> None:
        GroupBook.lose_ledger(self, key, before, is_told)
        self.progress_of(key).begin_anew()

    # What the group says of itself

    def _note_progress(self, topic: str, partition: int, committed: int, since: float) -> None:
        if self.setup.start == "latest" and math.isinf(self.began_at):
            return  # where it begins is decided anew, if that is lost before somebody is a member
        key, progress = (topic, partition), self.progress_of((topic, partition))
        if not progress.may_stand_at(committed, since) and not self._may_be_back(key, committed):
            raise Violation(f"G5: {self.setup.name} stands at {committed} of {key}; it is {progress}")
        self._check_passed(key, committed)

    def _check_passed(self, key: Key, committed: int) -> None:
        """G5: progress passes only what was handled."""
        for offset in range(committed):
            place = Place(*key, offset)
            value = self.clients.kept.get(place)
            if value is not None and self.is_ours(place, value) and not self._is_done(place):
                raise Violation(f"G5: {self.setup.name} stands at {committed} and nobody has handled {place}")

    def _is_done(self, place: Place) -> bool:
        return place in self.handled or place in self.skipped

    # In the end

    def check_end(self, letters: Collection[DeadLetter]) -> None:
        for letter in letters:
            raise Violation(f"§6: {letter.headers} is a dead letter of a stream")
        for place, value in self.clients.kept.items():
            if self.is_ours(place, value) and not self._is_done(place):
                raise Violation(f"G5: nobody of {self.setup.name} has handled {place}")
