"""What members and operators say over a connection, and what their groups hear of it."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.deadletters.requests import RedriveDeadLetters
from goqueue.actors.front import groups as servinggroups
from goqueue.actors.front.bounds import Bounds
from goqueue.actors.groups import requests as ask
from goqueue.core.groups.member import HEARTBEAT_SECONDS_MAX
from goqueue.core.groups.subscription import Subscription
from goqueue.core.groups.views import DescribedMember, DescribedPartition, OwnedPartition
from goqueue.core.ledger.damage import DamagedRun
from goqueue.core.ledger.settlements import Action
from goqueue.core.ledger.views import LaneFigures
from goqueue.errors import GoQueueError, GroupConflict, PartitionUnavailable, UnknownMember
from goqueue.net.wire import groups as wire
from goqueue.net.wire import letters
from goqueue.net.wire.groups import Why
from goqueue.net.wire.kinds import Request
from goqueue.net.wire.messages import Done, Stats, StatsReport
from tests.actors.front.connectionstage import MEMBERSHIP, TOPIC, Stage, connected, staged
from tests.net import bodies

JOIN = bodies.join("g", "m", "worker", ("orders",), {"mode": "queue"}, "latest", 10_000, True)


async def refused(stage: Stage, request: Request) -> GoQueueError:
    with pytest.raises(GoQueueError) as error:
        await stage.client.ask(request)
    return error.value


async def cut_off(stage: Stage) -> None:
    stage.client.transport.cut()
    await wait_all_tasks_blocked()


# Members


async def test_a_member_joins_a_group_that_is_made_if_need_be(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        assert await stage.client.ask(JOIN) == MEMBERSHIP
        assert stage.groups.heard == [ask.FindGroup("g", create=True)]
        settings = {"mode": "queue"}
        subscription = Subscription.to("orders")
        assert stage.group.heard == [
            ask.Join("m", "worker", subscription, settings, "latest", 10.0, True, 1, bodies.INSTANCE)
        ]


@pytest.mark.parametrize(
    ("asked", "subscription"),
    [
        (("orders", "bills"), Subscription(("bills", "orders"))),
        (("orders.*",), Subscription(pattern="orders.*")),
    ],
)
async def test_a_subscription_is_names_or_one_pattern(
    asked: tuple[str, ...], subscription: Subscription, autojump_clock: MockClock
) -> None:
    async with staged() as stage:
        await stage.client.ask(JOIN._replace(subscription=asked))
        [join] = stage.group.heard
        assert isinstance(join, ask.Join)
        assert join.subscription == subscription


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (JOIN._replace(group="__internal"), "invalid_name"),
        (JOIN._replace(group="a/b"), "invalid_name"),
        (JOIN._replace(group=""), "invalid_name"),
        (JOIN._replace(member=""), "invalid_name"),
        (JOIN._replace(subscription=()), "invalid_name"),
        (JOIN._replace(subscription=("a", "b*")), "invalid_name"),
        (JOIN._replace(start="yesterday"), "invalid_config"),
        (JOIN._replace(start="offset:"), "invalid_config"),
        (JOIN._replace(start="offset:-1"), "invalid_config"),
        (JOIN._replace(start=f"time:{2**63}"), "invalid_config"),
        (bodies.heartbeat("__x", "m", 1, 0), "invalid_name"),
        (bodies.heartbeat("other", "m", 1, 0), "unknown_group"),
        (bodies.leave("a b", "m"), "invalid_name"),
        (bodies.leave("other", "m"), "unknown_group"),
        (bodies.receive("__x", "m", 1, 0, 1, 1, 1, False, ()), "invalid_name"),
        (bodies.receive("g", "", 1, 0, 1, 1, 1, False, ()), "invalid_name"),
        (wire.Settle("__x", ()), "invalid_name"),
        (wire.DescribeGroups(("..",)), "invalid_name"),
        (wire.DescribeGroups(("other",)), "unknown_group"),
        (wire.AlterGroup("__x", {}), "invalid_name"),
        (wire.DeleteGroup("__x"), "invalid_name"),
        (wire.ResetGroup("g", "a/b", None, "latest"), "invalid_name"),
        (wire.ResetGroup("g", None, 3, "latest"), "protocol_error"),
        (wire.ResetGroup("g", None, None, "now"), "invalid_config"),
        (letters.Redrive("__x"), "invalid_name"),
        (letters.Redrive("orders", group="__x"), "invalid_name"),
        (letters.Redrive("orders", to="__x"), "invalid_name"),
        (letters.Redrive("orders", to="others", all_groups=True), "protocol_error"),
        (letters.Redrive("orders", per_second=0), "protocol_error"),
        (letters.Dismiss("__x"), "invalid_name"),
        (letters.Dismiss("orders", group="__x"), "invalid_name"),
        (letters.CountLetters("__x"), "invalid_name"),
        (letters.FindDecisions("__x", 0, 0, 1), "invalid_name"),
        (Why("__x"), "invalid_name"),
        (Why("g", ""), "invalid_name"),
        (Why("other"), "unknown_group"),
    ],
)
async def test_what_cannot_be_is_refused_before_a_group_hears_of_it(
    request_: Request, code: str, autojump_clock: MockClock
) -> None:
    """G14, G16"""
    async with staged() as stage:
        assert (await refused(stage, request_)).code == code
        assert stage.group.heard == []
        assert [each for each in stage.groups.heard if not isinstance(each, ask.FindGroup)] == []
        assert await stage.client.ask(JOIN) == MEMBERSHIP, "and the connection lives"


async def test_who_leaves_before_it_has_joined_is_not_heard_before_either(autojump_clock: MockClock) -> None:
    """It would stay a member of which nobody hears again, with its partitions, until its session is over."""
    async with staged() as stage:
        for _ in range(20):  # the tasks of a connection run in any order
            await stage.client.post(JOIN)
            await stage.client.post(bodies.leave("g", "m"))
            await stage.client.outcome()
            await stage.client.outcome()
        assert [type(each) for each in stage.group.heard] == [ask.Join, ask.Leave] * 20


async def test_who_leaves_is_not_held_up_by_a_join_that_failed(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        for refusal in (JOIN._replace(start="yesterday"), JOIN._replace(group="other")):
            await refused(stage, refusal)
            await stage.client.ask(bodies.leave("g", "m"))
        assert [type(each) for each in stage.group.heard] == [ask.Leave] * 2


async def test_a_heartbeat_is_answered_when_there_is_something_else(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.client.post(bodies.heartbeat("g", "m", 3, 3_000))
        await wait_all_tasks_blocked()
        [beat] = stage.group.heard
        assert isinstance(beat, ask.AwaitMembership)
        assert (beat.member, beat.generation, beat.connection) == ("m", 3, 1)
        assert beat.deadline == pytest.approx(trio.current_time() + 3)
        newer = MEMBERSHIP._replace(generation=4)
        stage.group.waiting[0].resolve(newer)
        assert await stage.client.outcome() == (1, newer)


async def test_a_heartbeat_never_waits_long(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.client.post(bodies.heartbeat("g", "m", 3, 2**32 - 1))
        await wait_all_tasks_blocked()
        [beat] = stage.group.heard_of(ask.AwaitMembership)
        assert beat.deadline == pytest.approx(trio.current_time() + HEARTBEAT_SECONDS_MAX)


async def test_heartbeats_and_settles_pass_receives_that_wait(autojump_clock: MockClock) -> None:
    """However many there are, and though they wait for their partitions or for room."""
    async with staged(2) as stage:
        stage.partitions[0].gate = trio.Event()
        for _ in range(100):
            await stage.client.post(bodies.receive("g", "m", 3, 30_000, 1, 1, 1_000, False, stage.where[:1]))
        await stage.client.post(bodies.heartbeat("g", "m", 3, 3_000))
        ack = bodies.settle(TOPIC, 1, 7, int(Action.ACK), (wire.DeliveryRun(1, 2, 1),))
        settle = await stage.client.post(wire.Settle("g", (ack,)))
        await wait_all_tasks_blocked()
        assert len(stage.group.heard_of(ask.AwaitMembership)) == 1
        assert await stage.client.outcome() == (settle, wire.Settled((wire.SettledDelivery(None),)))


async def test_a_group_is_looked_for_once_by_its_members(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.client.ask(JOIN)
        await stage.client.post(bodies.heartbeat("g", "m", 3, 3_000))
        await stage.client.post(bodies.leave("g", "m"))
        await wait_all_tasks_blocked()
        assert len(stage.groups.heard) == 1


async def test_who_waits_when_the_broker_goes_beats_elsewhere(autojump_clock: MockClock) -> None:
    """G15"""
    async with staged() as stage:
        beat = await stage.client.post(bodies.heartbeat("g", "m", 3, 3_000))
        await wait_all_tasks_blocked()
        stage.nursery.start_soon(stage.client.connection.go_away, "the end")
        await stage.client.next_event()
        correlation, error = await stage.client.outcome()
        assert isinstance(error, GoQueueError)
        assert (correlation, error.code) == (beat, "going_away")


# The end of a connection


async def test_when_a_connection_ends_the_groups_of_its_members_are_told(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.client.ask(JOIN)
        await stage.client.ask(JOIN._replace(member="n"))
        await cut_off(stage)
        lost = stage.group.heard_of(ask.MemberLost)
        assert lost == [ask.MemberLost("m", 1), ask.MemberLost("n", 1)]


async def test_a_member_that_beats_on_a_new_connection_is_lost_with_that_one(autojump_clock: MockClock) -> None:
    """The first one's end comes late, and says which connection it was: the group knows a newer one."""
    async with staged() as stage:
        await stage.client.ask(JOIN)
        second = connected(stage.broker, stage.common, stage.nursery)
        await second.greet()
        await second.post(bodies.heartbeat("g", "m", 3, 3_000))
        await wait_all_tasks_blocked()
        [beat] = stage.group.heard_of(ask.AwaitMembership)
        assert beat.connection == 2
        await cut_off(stage)
        second.transport.cut()
        await wait_all_tasks_blocked()
        assert stage.group.heard_of(ask.MemberLost) == [ask.MemberLost("m", 1), ask.MemberLost("m", 2)]


async def test_a_connection_that_ends_while_its_member_joins_is_heard_of_behind_the_joining(
    autojump_clock: MockClock,
) -> None:
    async with staged() as stage:
        stage.group.gate = trio.Event()
        await stage.client.post(JOIN)
        await wait_all_tasks_blocked()
        await cut_off(stage)
        stage.group.gate.set()
        await wait_all_tasks_blocked()
        assert [type(each) for each in stage.group.heard] == [ask.Join, ask.MemberLost]


async def test_a_member_that_left_or_was_refused_is_not_lost(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.client.ask(JOIN)
        assert await stage.client.ask(bodies.leave("g", "m")) == Done()
        stage.group.refusal = GroupConflict("other settings")
        assert isinstance(await refused(stage, JOIN), GroupConflict)
        await cut_off(stage)
        assert stage.group.heard_of(ask.MemberLost) == []


async def test_a_member_that_its_group_does_not_know_is_forgotten(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.client.ask(JOIN)
        stage.group.refusal = UnknownMember("join again")
        assert isinstance(await refused(stage, bodies.heartbeat("g", "m", 3, 3_000)), UnknownMember)
        await cut_off(stage)
        assert stage.group.heard_of(ask.MemberLost) == []


async def test_a_member_whose_coming_back_was_refused_is_still_lost_with_its_connection(
    autojump_clock: MockClock,
) -> None:
    async with staged() as stage:
        await stage.client.ask(JOIN)
        stage.group.refusal = GroupConflict("other settings")
        await refused(stage, JOIN)
        await cut_off(stage)
        assert stage.group.heard_of(ask.MemberLost) == [ask.MemberLost("m", 1)]


async def test_a_connection_carries_a_bounded_number_of_members(autojump_clock: MockClock) -> None:
    async with staged(bounds=Bounds(members_max=2)) as stage:
        await stage.client.ask(JOIN)
        await stage.client.ask(JOIN._replace(member="n"))
        assert (await refused(stage, JOIN._replace(member="o"))).code == "too_many_requests"
        assert await stage.client.ask(JOIN) == MEMBERSHIP, "those who are there may come back"
        await stage.client.ask(bodies.leave("g", "n"))
        assert await stage.client.ask(JOIN._replace(member="o")) == MEMBERSHIP


async def test_members_are_counted_while_their_connection_is_open(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.client.ask(JOIN)
        await stage.client.ask(JOIN)
        report = await stage.client.ask(Stats())
        assert isinstance(report, StatsReport)
        assert (report.counters["groups"], report.counters["groups.members"]) == (2, 1)
        await cut_off(stage)
        assert stage.broker.statistics.groups.members == 0


async def test_figures_do_not_wait_for_a_log_that_hangs_nor_fail_with_one_that_cannot_be_read(
    autojump_clock: MockClock,
) -> None:
    async with staged() as stage:
        stage.group.refusal = PartitionUnavailable("it cannot be opened")
        report = await stage.client.ask(Stats())
        assert isinstance(report, StatsReport)
        assert report.counters["lane.critical.ready"] == 0, "of the others, of which there are none"
        stage.group.gate = trio.Event()
        before = trio.current_time()
        report = await stage.client.ask(Stats())
        assert isinstance(report, StatsReport)
        assert trio.current_time() - before <= 2
        assert "lane.critical.ready" not in report.counters
        assert report.counters["groups"] == 2


# Operators


async def test_groups_are_described_by_name_or_all_of_them(autojump_clock: MockClock) -> None:
    """One that went while the others were asked is left out, unless it was named."""
    async with staged() as stage:
        described = wire.Groups((wire.GroupDescription("g", "stable", 3, {}, (), ()),))
        assert await stage.client.ask(wire.DescribeGroups(("g", "g"))) == described
        assert await stage.client.ask(wire.DescribeGroups(None)) == described
        assert (await refused(stage, wire.DescribeGroups(("g", "gone-meanwhile")))).code == "unknown_group"


async def test_a_description_travels_with_all_that_it_says(autojump_clock: MockClock) -> None:
    damage, lane = DamagedRun(5, 9, "0.log", 3), LaneFigures(1, 2, 3, 4)
    member = DescribedMember("m", "worker", ("orders",), (OwnedPartition("orders", bytes(16), 1),), 10, 20, True)
    sound = DescribedPartition(
        "orders", 0, "m", 1, 2, 3, 4, 5, 6, 7, 8, None, (lane,), 3, (damage,), progress_lost_at=11, shown_before=12
    )
    lost = DescribedPartition("orders", 1, None, error=PartitionUnavailable("it is away"))
    async with staged() as stage:
        stage.group.members, stage.group.described = (member,), (sound, lost)
        answer = await stage.client.ask(wire.DescribeGroups(("g",)))
        assert isinstance(answer, wire.Groups)
        [group] = answer.groups
        assert [tuple(each) for each in group.members] == [tuple(member)]
        assert tuple(group.partitions[0]) == tuple(sound)
        error = group.partitions[1].error
        assert error is not None
        assert (error.code, error.message) == (PartitionUnavailable.code, "it is away")


async def test_an_answer_describes_a_bounded_number_of_members_and_partitions(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G14: all groups of a large broker would be more than a message holds. One alone is always told."""
    monkeypatch.setattr(servinggroups, "ROWS_MAX", 7)
    async with staged() as stage:
        stage.groups.groups["h"] = stage.groups.groups["g"]
        stage.group.partitions = 4
        assert (await refused(stage, wire.DescribeGroups(None))).code == "too_large"
        stage.group.partitions = 8
        answer = await stage.client.ask(wire.DescribeGroups(("h",)))
        assert isinstance(answer, wire.Groups)
        assert len(answer.groups[0].partitions) == 8


async def test_a_group_is_altered_reset_and_deleted(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        altered = await stage.client.ask(wire.AlterGroup("g", {"max_deliveries": 5}, force=True))
        assert altered == wire.Groups((wire.GroupDescription("g", "stable", 3, {"max_deliveries": 5}, (), ()),))
        reset = await stage.client.ask(wire.ResetGroup("g", "orders", 2, "offset:17", dry_run=True))
        assert reset == wire.GroupReset((wire.ResetPartition("orders", 0, 5, 0),))
        assert await stage.client.ask(wire.DeleteGroup("g")) == Done()
        assert stage.group.heard == [
            ask.Alter({"max_deliveries": 5}, force=True),
            ask.ResetOffsets("orders", 2, "offset:17", dry_run=True, force=False),
        ]
        assert stage.groups.heard[-1] == ask.RemoveGroup("g")


async def test_dead_letters_are_sent_back_one_redrive_at_a_time(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        stage.groups.gate = trio.Event()
        asked = letters.Redrive("orders", "g", 1, (4, 5), "timeout", "retries", False, 10, 100, True, True)
        first = await stage.client.post(asked)
        await wait_all_tasks_blocked()
        assert (await refused(stage, asked)).code == "too_many_requests"
        stage.groups.gate.set()
        assert await stage.client.outcome() == (first, letters.Redriven(7, 2, 9, 1))
        assert stage.groups.heard == [
            RedriveDeadLetters(
                topic="orders",
                group="g",
                partition=1,
                offsets=(4, 5),
                reason="timeout",
                to="retries",
                all_groups=False,
                messages_max=10,
                per_second=100,
                dry_run=True,
                again=True,
            )
        ]
        assert await stage.client.ask(asked) == letters.Redriven(7, 2, 9, 1)
