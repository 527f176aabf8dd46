"""Ranges that the log cannot read, their repair, and their being given up, in the model of a ledger."""

from goqueue.core.ledger.entries import LaneOffsets
from goqueue.core.ledger.shares import LANES
from goqueue.core.offsetset import OffsetSet
from tests.core.ledger.parts import Choose, Message, State, together
from tests.core.ledger.receiving import Receiving

PATHS = ("0.log", "5.log")


class Damaging(Receiving):
    removed: int

    def damaged_within(self, first: int, last: int) -> list[int]:
        found = [offset for offset, message in self.messages.items() if message.state is State.DAMAGED]
        return sorted(offset for offset in found if first <= offset <= last)

    def some_range(self, choose: Choose) -> tuple[int, int]:
        first = choose(range(len(self.log)))
        return first, min(len(self.log) - 1, first + choose((0, 2, 5, 30)))

    def damage(self, choose: Choose) -> None:
        """Whatever is not done, and not in the hands of a consumer, waits for a repair."""
        if not self.log:
            return
        self.move_on()
        first, last = self.some_range(choose)
        fresh = [
            offset for offset in range(first, last + 1) if offset >= min(self.fresh) and self.is_unseen(offset)
        ]
        known = {offset: self.messages[offset] for offset in range(first, last + 1) if offset in self.messages}
        entry = self.ledger.damage.note(self.now, first, last, choose(PATHS))
        for message in known.values():
            if message.state in (State.READY, State.LEAVING):
                message.repaired = State.LEAVING if message.state is State.LEAVING else State.READY
                message.state = State.DAMAGED
        for offset in fresh:
            self.messages[offset] = Message(State.DAMAGED, repaired=State.READY if self.log[offset] else State.DONE)
        self.aside.update(fresh)
        self.write(entry)

    def repair(self, choose: Choose) -> None:
        if self.log:
            self.repair_range(*self.some_range(choose))

    def repair_range(self, first: int, last: int) -> None:
        """Each goes back to where it was; those never handed out are ready, in their lanes."""
        damaged = self.damaged_within(first, last)
        shown = [offset for offset in range(first, last + 1) if self.log[offset]]
        by_lane = [[offset for offset in shown if self.lanes[offset] == lane] for lane in LANES]
        lanes = [LaneOffsets(lane, OffsetSet(together(by_lane[lane]))) for lane in LANES]
        entry = self.ledger.damage.repair(first, last, lanes)
        assert (entry is not None) == bool(damaged)
        for offset in damaged:
            repaired = self.messages[offset].repaired
            assert repaired is not None
            self.messages[offset].state = repaired
        self.write(entry)

    def skip(self, choose: Choose) -> None:
        """Given up: counted as not acked, and done."""
        if not self.log:
            return
        first, last = self.some_range(choose)
        damaged = self.damaged_within(first, last)
        entry = self.ledger.damage.skip(first, last)
        assert (entry is not None) == bool(damaged)
        assert entry is None or entry.unacked == len(damaged)
        for offset in damaged:
            self.messages[offset].state = State.DONE
        self.removed += len(damaged)
        self.write(entry)
