"""How messages are handed out, in the model of a ledger: of one lane, or of several, each from its own place on."""

from collections.abc import Iterable

from goqueue.core.ledger.attempts import AttemptRun, as_runs, split_messages
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.handout import LaneScan, Recipient, Scanned
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.shares import LANES
from goqueue.core.ledger.views import Dealt, FreshLanes, Plan
from goqueue.core.offsetset import OffsetSet, Run
from tests.core.ledger.parts import MEMBERS, Choose, Message, Slip, State, singles, together


class Receiving:
    ledger: Ledger
    now: float
    wall: int
    nonce: int
    messages: dict[int, Message]
    """Of every offset that was looked at."""
    log: list[bool]
    """Whether the record at each offset is one to hand out."""
    lanes: list[int]
    """Of each record."""
    fresh: list[int]
    """Of each lane everything below was looked at."""
    slips: list[Slip]
    aside: set[int]
    """Damaged now or before, without ever having been handed out: no lane hands them out when it gets there."""

    def write(self, entry: Entry | None) -> None:
        raise NotImplementedError

    def state(self, *states: State) -> list[int]:
        raise NotImplementedError

    def held(self, member: str) -> list[Message]:
        raise NotImplementedError

    def goes_alone(self, offset: int) -> bool:
        raise NotImplementedError

    def is_last(self, message: Message) -> bool:
        raise NotImplementedError

    def move_on(self) -> None:
        raise NotImplementedError

    @property
    def next_fresh(self) -> int:
        return min(self.fresh)

    def is_unseen(self, offset: int) -> bool:
        """Nobody has looked at it, as far as is known: what a lane that is ahead has passed over is not noted."""
        if offset in self.aside:
            return False
        return offset >= len(self.log) or offset not in self.messages or not self.log[offset]

    def unseen_of(self, lane: int) -> list[int]:
        behind = range(self.fresh[lane], len(self.log))
        return [offset for offset in behind if self.lanes[offset] == lane and offset not in self.aside]

    def fresh_lanes(self) -> FreshLanes:
        seen = set(self.lanes[self.next_fresh :])
        if len(seen) <= 1:
            return FreshLanes(sum(1 << lane for lane in seen), is_mixed=False)
        return FreshLanes(sum(1 << lane for lane in LANES if self.unseen_of(lane)), is_mixed=True)

    def receive(self, choose: Choose) -> None:
        member, count, elsewhere = choose(MEMBERS), choose((4, 6, 2, 1, 3, 0)), choose((False, False, True))
        is_busy, fresh = elsewhere or bool(self.held(member)), self.fresh_lanes()
        plan = self.ledger.plan(self.now, member, count, is_busy=is_busy, fresh=fresh)
        if plan.dealt is None:
            self.check_plan(plan, member, count, elsewhere)
            assert not fresh.is_mixed or (plan.fresh_max, plan.fresh_from) == (0, self.next_fresh), "no lane moves"
            self.receive_from_one(choose, member, plan)
        else:
            self.check_deal(plan, plan.dealt, count, fresh)
            self.receive_from_lanes(choose, member, plan, plan.dealt)

    # Of one lane

    def check_plan(self, plan: Plan, member: str, count: int, elsewhere: bool) -> None:
        self.move_on()
        alone = [offset for offset in self.state(State.READY) if self.goes_alone(offset)]
        ordinary = [offset for offset in self.state(State.READY) if not self.goes_alone(offset)]
        held = self.held(member)
        if any(message.is_alone for message in held) or not count:
            offsets, room, is_alone = [], 0, False
        elif alone and not held and not elsewhere:
            offsets, room, is_alone = alone[:1], 0, True
        else:
            offsets, room, is_alone = ordinary[:count], count - len(ordinary[:count]), False
        assert singles(plan.again) == [(offset, self.messages[offset].attempt) for offset in offsets]
        assert (plan.fresh_from, plan.fresh_max, plan.is_alone) == (self.fresh[plan.lane], room, is_alone)
        assert plan.alone_waiting == (bool(alone) and not is_alone)

    def receive_from_one(self, choose: Choose, member: str, plan: Plan) -> None:
        left_out = choose((9, 9, 0, 1))
        again = [run for place, run in enumerate(plan.again) if place != left_out]
        end = min(len(self.log), plan.fresh_from + choose((10, 3, 0))) if plan.fresh_max else plan.fresh_from
        found = [offset for offset in range(plan.fresh_from, end) if self.log[offset] and offset not in self.aside]
        if len(found) > plan.fresh_max:
            found = found[: plan.fresh_max]
            end = found[-1] + 1
        self.wall, self.nonce, visibility = self.wall + 1, self.nonce + 1, choose((3.0, 30.0, 0.5))
        scan = LaneScan(plan.lane, end, again, together(found))
        tells_begun = self.hand_out(choose, member, visibility, plan, [scan])
        looked = range(self.fresh[plan.lane], end)
        self.note_looked([offset for offset in looked if offset not in self.aside])
        self.fresh = [max(place, end) for place in self.fresh]
        given = [*[offset for offset, _ in singles(again)], *found]
        self.note_given(member, visibility, given, plan, counts=not tells_begun)

    # Of several lanes

    def check_deal(self, plan: Plan, dealt: Dealt, count: int, fresh: FreshLanes) -> None:
        """Each lane has its own first, those that come again before fresh ones; nobody waits for nothing (G9)."""
        self.move_on()
        ordinary = [offset for offset in self.state(State.READY) if not self.goes_alone(offset)]
        of_lanes = [[offset for offset in ordinary if self.lanes[offset] == lane] for lane in LANES]
        for lane in LANES:
            ready = [offset for offset, _ in singles(dealt.ready[lane])]
            assert ready == of_lanes[lane][:count]
            has_more = dealt.counts[lane] <= len(ready) or fresh.mask >> lane & 1
            assert has_more, "a lane is allotted what it may have, and no more"
        there = len(ordinary) + (count if fresh.mask else 0)
        assert sum(dealt.counts) == dealt.wanted == min(count, there)
        assert plan.fresh_max == dealt.wanted - len(singles(plan.again))
        chosen = [singles(dealt.ready[lane])[: dealt.counts[lane]] for lane in LANES]
        assert [each for some in chosen for each in some] == singles(plan.again)

    def receive_from_lanes(self, choose: Choose, member: str, plan: Plan, dealt: Dealt) -> None:
        scans = list[LaneScan]()
        for lane in LANES:
            ready, _ = split_messages(dealt.ready[lane], dealt.counts[lane])
            wanted = dealt.counts[lane] - len(singles(ready))
            taken = () if choose((False, False, True)) else ready
            place, offsets = self.taken_of(lane, max(0, wanted - choose((0, 0, 1))))
            scans.append(LaneScan(lane, place, taken, OffsetSet(together(offsets))))
        self.wall, self.nonce, visibility = self.wall + 1, self.nonce + 1, choose((3.0, 30.0, 0.5))
        tells_begun = self.hand_out(choose, member, visibility, plan, scans)
        for scan in scans:
            self.note_looked([offset for offset in self.unseen_of(scan.lane) if offset < scan.scanned_to])
            self.fresh[scan.lane] = scan.scanned_to
        again = [offset for scan in scans for offset, _ in singles(scan.again)]
        fresh = [offset for scan in scans for offset, _ in singles(_first(as_runs(scan.fresh)))]
        self.note_given(member, visibility, [*again, *fresh], plan, counts=not tells_begun)

    def taken_of(self, lane: int, wanted: int) -> tuple[int, list[int]]:
        """So many of a lane, and where it has come then: to the end of the log when it has no more."""
        unseen = self.unseen_of(lane)
        there = [offset for offset in unseen if self.log[offset]]
        if len(there) < wanted or not unseen:
            return len(self.log), there
        return (there[wanted - 1] + 1 if wanted else self.fresh[lane]), there[:wanted]

    # Both

    def hand_out(self, choose: Choose, member: str, visibility: float, plan: Plan, scans: list[LaneScan]) -> bool:
        """To decide changes nothing; what is given is what was scanned, once, in the order of the lanes. Returns
        whether the member tells what it has begun."""
        before, tells_begun = self.ledger.snapshot(self.now), bool(choose((False, True)))
        to = Recipient(self.wall, member, self.nonce, visibility, tells_begun)
        decided = self.ledger.hand_out(self.now, to, plan, Scanned(scans))
        assert self.ledger.snapshot(self.now) == before
        scanned = [(each.lane, [*singles(each.again), *singles(_first(as_runs(each.fresh)))]) for each in scans]
        named = singles(decided.runs or decided.sets.runs())
        assert sorted(named) == sorted(one for _, some in scanned for one in some)
        assert not decided.runs or named == [one for _, some in scanned for one in some]
        given = {lane: len(some) for lane, some in scanned}
        assert decided.counts == ([given.get(lane, 0) for lane in LANES] if named else None)
        for entry in decided.entries:
            self.write(entry)
        self.ledger.handed_out(self.now, decided)
        return tells_begun

    def note_looked(self, offsets: list[int]) -> None:
        for offset in offsets:
            assert offset not in self.messages, "a first delivery comes once, in the order of its lane (G4)"
            self.messages[offset] = Message(State.DONE, first_delivery=self.wall)

    def note_given(self, member: str, visibility: float, offsets: list[int], plan: Plan, *, counts: bool) -> None:
        for offset in offsets:
            message = self.messages[offset]
            message.state, message.member, message.nonce = State.IN_FLIGHT, member, self.nonce
            message.time, message.visibility = self.now + visibility, visibility
            message.last_delivery, message.is_alone, message.counts = self.wall, plan.is_alone, counts
            message.first_delivery = message.first_delivery or self.wall
            self.slips.append(Slip(self.nonce, offset, message.attempt))


def _first(fresh: Iterable[Run]) -> list[AttemptRun]:
    return [AttemptRun(*run, 1) for run in fresh]
