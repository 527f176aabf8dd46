"""A group under any row of events, against a model of its partitions and clients (G10).

Clients hear what they are told at once, but let go when Hypothesis likes, and what they say then travels as long as
it likes. A client believes that it owns what it was told to let go of until it has done so. Partitions believe what
they were assigned: each has the tenure that the broker keeps. What holds after every single effect:

    a partition has one owner per generation, and what does not move gets no effect
    a partition takes requests of its owner's consumer, and of no other that there is or ever was
    no two clients believe that they own the same partition, unless the queue hands over at once
    nothing is taken from a client before it let go, except after sixty seconds
    nobody is expelled but for silence, and nobody silent stays
    a consumer that comes in the place of another, or back to its own, has all of it, and nobody else hears anything
    where all read the same topics, no fewer partitions could have moved

and at the end, whatever was under way: the group settles, and each partition that is read has one owner, who
reads it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.core.groups.assignors import Assignment, TopicPartition
from goqueue.core.groups.decisions import Decision, MemberLeft
from goqueue.core.groups.effects import Assign, Effect, Expelled, Replaced, Tell
from goqueue.core.groups.member import MemberProfile
from goqueue.core.groups.rebalance import Group, GroupState
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.subscription import Subscription
from goqueue.core.groups.tenure import Tenure
from goqueue.errors import Fenced, StaleGeneration

MEMBERS = ["a", "b", "c", "d"]
SUBSCRIPTIONS = ["*", "s", "t", ["s", "t"], ["t", "u"]]
all_settings = st.builds(
    GroupSettings,
    mode=st.sampled_from(["queue", "stream"]),
    assignor=st.sampled_from(["sticky", "sticky", "range", "roundrobin"]),
    rebalance=st.sampled_from(["cooperative", "cooperative", "eager"]),
)
all_topics = st.dictionaries(st.sampled_from(["s", "t", "u"]), st.integers(1, 5))


@dataclass
class Client:
    subscription: Subscription
    is_static: bool
    last_heard: float
    instance: int = 0
    is_away: bool = False
    lost_since: float | None = None
    told: Tell | None = None
    believes: set[TopicPartition] = field(default_factory=set)
    asked_since: dict[TopicPartition, float] = field(default_factory=dict)
    knows: int = 0
    """The generation that it speaks of: the newest, once it has let go of what that one revoked."""
    on_the_way: list[int] = field(default_factory=list)
    """Heartbeats that confirm these generations; nobody has heard yet."""

    @property
    def deadline(self) -> float:
        end = self.last_heard + 30
        keeps_session = self.is_static and not self.is_away
        return end if self.lost_since is None or keeps_session else min(end, self.lost_since + 5)

    def heard(self, now: float) -> None:
        self.last_heard, self.lost_since, self.is_away = now, None, False

    def begin_anew(self, instance: int) -> None:
        """Another program has its place, and knows nothing of what the one before it said."""
        self.instance, self.believes, self.on_the_way = instance, set(), []

    def hear(self, tell: Tell, now: float) -> None:
        if self.told is not None:
            assert tell.generation >= self.told.generation
        self.told = tell
        self.believes = {*tell.assignment, *(self.believes & tell.revoked)}
        self.asked_since = {each: self.asked_since.get(each, now) for each in tell.revoked}
        if not self.believes & tell.revoked:
            self.knows = tell.generation


def obeys(tenure: Tenure, member: str, instance: int, generation: int) -> bool:
    try:
        tenure.check(member, generation, instance, "here")
    except (StaleGeneration, Fenced):
        return False
    return True


class AnyGroup(RuleBasedStateMachine):
    @initialize(settings=all_settings, topics=all_topics)
    def begin(self, settings: GroupSettings, topics: dict[str, int]) -> None:
        self.settings, self.topics = settings, topics
        self.group = Group(topics)
        self.now = 0.0
        self.clients: dict[str, Client] = {}
        self.owners: dict[TopicPartition, str] = {}
        self.tenures = defaultdict[TopicPartition, Tenure](Tenure)
        self.gone: dict[tuple[str, int], int] = {}
        """Consumers that are no more, by member and instance, with the generation that each was told last."""
        self.expelled: dict[str, int] = {}
        """Members that were expelled for their silence, and the consumer of each: it may still be there."""
        self.instances = count(1)
        self.history: dict[tuple[TopicPartition, int], str | None] = {}

    @property
    def waits(self) -> bool:
        return self.settings.mode == "stream" or self.settings.rebalance == "eager"

    # Events

    @rule(
        member=st.sampled_from(MEMBERS),
        subscription=st.sampled_from(SUBSCRIPTIONS),
        is_static=st.booleans(),
        is_another=st.booleans(),
    )
    def join(self, member: str, subscription: object, is_static: bool, is_another: bool) -> None:
        """Who was expelled may come back, or another consumer in its place."""
        known = self.clients.get(member)
        asked = Subscription.to(subscription)
        if known is None:
            self.clients = self.present  # nobody keeps a place from somebody who joins
        before = self.held()
        if known is None:
            came_back = None if is_another else self.expelled.get(member)
            instance = next(self.instances) if came_back is None else came_back
            self.clients[member] = Client(asked, is_static, self.now, instance)
        else:
            known.subscription, known.is_static = asked, is_static
            known.heard(self.now)
        self.enter(member)
        assert self.clients[member].told is not None, "a joiner is always answered"
        if known is None:
            self.check_fewest_moves(before)

    def enter(self, member: str) -> list[Effect]:
        client = self.clients[member]
        self.gone.pop((member, client.instance), None)
        profile = MemberProfile(
            member,
            "c",
            client.subscription,
            self.settings,
            is_static=client.is_static,
            instance=client.instance,
        )
        effects = self.group.apply(self.now, self.decided(partial(self.group.join, profile)))
        self.perform(effects)
        return effects

    def decided(self, decide: Callable[[], Decision]) -> Decision:
        """What is decided has changed nothing yet: it may as well be dropped."""
        before = self.state()
        decide()
        decision = decide()
        assert self.state() == before
        return decision

    def state(self) -> object:
        group = self.group
        return group.view(self.now), group.remembered(), group.next_deadline(), group.waits_since

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        """A program is started again under its member id, whatever became of the one before it."""
        member = self.draw_member(data)
        client, owners, generation = self.clients[member], dict(self.owners), self.group.generation
        client.heard(self.now)
        before, told = client.instance, client.told
        client.begin_anew(next(self.instances))
        assert told is not None
        self.gone.setdefault((member, before), told.generation)
        replaced, again = self.enter(member)
        assert (replaced, again) == (Replaced(member, client.instance, before), client.told)
        assert client.told is not None
        assert (client.told.generation, client.told.assignment) == (told.generation, told.assignment)
        assert (self.owners, self.group.generation) == (owners, generation)
        with pytest.raises(Fenced, match="member_id of its own"):
            self.group.heartbeat(member, told.generation, before)
        with pytest.raises(Fenced):
            self.group.leave(member, before)

    @precondition(lambda self: self.present)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        """A static member goes, and keeps its place."""
        member = self.draw_present(data)
        client = self.clients[member]
        decision = self.decided(partial(self.group.close, member, client.instance))
        assert decision == MemberLeft(member, keeps_place=client.is_static)
        if client.is_static:
            self.consumer_left(member, client, keeps_place=True)
            assert self.group.apply(self.now, decision) == []
            client.begin_anew(client.instance)
            client.is_away, client.last_heard, client.lost_since = True, self.now, self.now

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member = self.draw_member(data)
        client = self.clients.pop(member)
        before = self.held()
        decision = self.decided(partial(self.group.leave, member, client.instance))
        self.consumer_left(member, client, keeps_place=False)
        self.perform(self.group.apply(self.now, decision))
        self.check_fewest_moves(before)

    @precondition(lambda self: self.present)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        member = self.draw_present(data)
        client, generation = self.clients[member], self.group.generation
        told, knows = client.told, client.knows
        effects = self.beat(member, knows)
        assert told is not None
        if knows < told.generation:
            [again] = effects
            assert isinstance(again, Tell)
            assert (again.generation, again.assignment) == (told.generation, told.assignment)
            assert self.group.generation == generation
        elif not told.revoked:
            assert effects == []

    def beat(self, member: str, generation: int) -> list[Effect]:
        client = self.clients[member]
        client.heard(self.now)
        decision = self.decided(partial(self.group.heartbeat, member, generation, client.instance))
        effects = self.group.apply(self.now, decision)
        self.perform(effects)
        return effects

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def lose_connection(self, data: st.DataObject) -> None:
        member = self.draw_member(data)
        client = self.clients[member]
        client.lost_since = self.now if client.lost_since is None else client.lost_since
        self.group.connection_lost(self.now, member)

    @precondition(lambda self: any(self.clients[name].told.revoked for name in self.present))
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        """The client stops reading and says so; nobody has heard it yet."""
        client = self.clients[self.draw_present(data)]
        assert client.told is not None
        client.believes, client.knows = set(client.told.assignment), client.told.generation
        client.on_the_way.append(client.knows)

    @precondition(lambda self: any(client.on_the_way for client in self.clients.values()))
    @rule(data=st.data())
    def confirmation_arrives(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(sorted(name for name, each in self.clients.items() if each.on_the_way)))
        self.beat(member, self.clients[member].on_the_way.pop(0))

    @rule(topics=all_topics)
    def topics_change(self, topics: dict[str, int]) -> None:
        self.topics = topics
        self.owners = {each: owner for each, owner in self.owners.items() if self.exists(each)}
        for gone in [each for each in self.tenures if not self.exists(each)]:
            del self.tenures[gone]
        for client in self.clients.values():
            client.believes = {each for each in client.believes if self.exists(each)}
        self.perform(self.group.topics_changed(self.now, topics))

    @rule(seconds=st.sampled_from([0.5, 4.0, 10.0, 29.0]))
    def time_passes(self, seconds: float) -> None:
        self.advance(seconds)

    @rule(seconds=st.sampled_from([20.0, 59.0, 61.0]))
    def time_passes_while_hearts_beat(self, seconds: float) -> None:
        self.advance(seconds, beating=True)

    @rule()
    def settle(self) -> None:
        """After the last event and the timeouts: who is away is given up first, then who does not let go."""
        self.advance(5, beating=True)
        self.advance(61, beating=True)
        assert self.group.state is (GroupState.STABLE if self.clients else GroupState.EMPTY)
        readers = {name: client.subscription.resolve(self.topics) for name, client in self.clients.items()}
        read = frozenset[str]().union(*readers.values())
        assert self.owners.keys() == {each for each in self.everything() if each.topic in read}
        assert all(each.topic in readers[owner] for each, owner in self.owners.items())
        for name, client in self.clients.items():
            assert client.told is not None
            assert client.told.assignment == self.held().get(name, frozenset())
        if len(set(readers.values())) == 1:
            sizes = [len(self.held().get(name, ())) for name in self.clients]
            assert max(sizes) - min(sizes) <= 1

    def teardown(self) -> None:
        if hasattr(self, "group"):
            self.settle()

    # What must hold

    @invariant()
    def nothing_is_due_before_its_time(self) -> None:
        deadline = self.group.next_deadline()
        if deadline is None:
            assert not self.clients
        else:
            assert deadline > self.now
        assert self.group.tick(self.now) == []

    @invariant()
    def nobody_silent_stays(self) -> None:
        assert all(client.deadline > self.now for client in self.clients.values())

    @invariant()
    def a_partition_obeys_one_consumer(self) -> None:
        """G10: the consumer of its owner, and nobody else with what they know."""
        knowing = {(name, each.instance): each.told.generation for name, each in self.present.items() if each.told}
        for partition, tenure in self.tenures.items():
            obeyed = [key for key, known in {**self.gone, **knowing}.items() if obeys(tenure, *key, known)]
            owner = self.owners.get(partition, "")
            assert obeyed == ([(owner, self.present[owner].instance)] if owner in self.present else [])

    def perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Expelled):
                self.expel(effect.member)
            elif isinstance(effect, Replaced):
                self.replaced(effect)
            elif isinstance(effect, Assign):
                self.assigned(effect)
            elif isinstance(effect, Tell):
                self.clients[effect.member].hear(effect, self.now)
                self.check_beliefs()
        assert {member.id for member in self.group.view(self.now).members} == self.clients.keys()

    def expel(self, member: str) -> None:
        client = self.clients.pop(member, None)
        assert client is None or client.deadline <= self.now, "or it was away, and somebody joined"
        if client is not None and client.told is not None and not client.is_away:
            self.gone[member, client.instance] = client.told.generation
            self.expelled[member] = client.instance

    def replaced(self, effect: Replaced) -> None:
        for partition in self.tenures.keys() & self.group.had_by(effect.member):
            self.tenures[partition].note_replaced(effect.member, effect.before, effect.instance, self.now)
            if effect.before != effect.instance:
                with pytest.raises(Fenced):
                    self.tenures[partition].check(effect.member, self.group.generation, effect.before, "here")

    def consumer_left(self, member: str, client: Client, *, keeps_place: bool) -> None:
        """Before the group takes it up: then it knows where the consumer may hold something."""
        assert client.told is not None
        self.gone.setdefault((member, client.instance), client.told.generation)
        self.expelled.pop(member, None)
        for partition in self.tenures.keys() & self.group.had_by(member):
            self.tenures[partition].note_left(member, client.instance, self.now, keeps_place=keeps_place)

    def assigned(self, effect: Assign) -> None:
        partition = TopicPartition(effect.topic, effect.partition)
        before = self.owners.pop(partition, None)
        assert before != effect.member, "what does not move gets no effect"
        assert effect.generation <= self.group.generation
        assert (partition, effect.generation) not in self.history, "one owner per generation"
        self.history[partition, effect.generation] = effect.member
        self.tenures[partition].assign(effect.member, effect.generation)
        if effect.member is not None:
            assert effect.member in self.clients
            self.owners[partition] = effect.member
        loser = self.clients.get(before or "")
        if self.waits and loser is not None and partition in loser.believes:
            assert self.now - loser.asked_since[partition] >= 60
            loser.believes.remove(partition)

    def check_beliefs(self) -> None:
        if self.waits:
            beliefs = [each for client in self.clients.values() for each in client.believes]
            assert len(beliefs) == len(set(beliefs))

    def check_fewest_moves(self, before: dict[str, Assignment]) -> None:
        """From what each one has, to a share that is fair, if all read the same."""
        readers = {client.subscription.resolve(self.topics) for client in self.clients.values()}
        if self.settings.assignor != "sticky" or self.settings.rebalance == "eager" or len(readers) != 1:
            return
        [topics] = readers
        kept = {name: [each for each in before.get(name, ()) if each.topic in topics] for name in self.clients}
        fair, more = divmod(sum(self.topics[topic] for topic in topics), len(self.clients))
        largest = sorted(map(len, kept.values()), reverse=True)
        fewest = sum(max(0, size - fair - (rank < more)) for rank, size in enumerate(largest))
        staying = {member.id: member.assignment for member in self.group.view(self.now).members}
        assert sum(len(set(kept[name]) - staying[name]) for name in kept) == fewest

    # The world

    def advance(self, seconds: float, *, beating: bool = False) -> None:
        """As a shell does it: a tick whenever one is due."""
        end = self.now + seconds
        while self.now < end:
            deadline = self.group.next_deadline()
            self.now = min(end, self.now + 3 if beating else end, end if deadline is None else deadline)
            for member, client in self.present.items() if beating else ():
                self.beat(member, client.knows)
            self.perform(self.group.tick(self.now))
            self.nobody_silent_stays()

    def draw_member(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.clients)))

    def draw_present(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.present)))

    @property
    def present(self) -> dict[str, Client]:
        return {name: client for name, client in self.clients.items() if not client.is_away}

    def held(self) -> dict[str, Assignment]:
        return {
            name: frozenset(each for each, owner in self.owners.items() if owner == name) for name in self.clients
        }

    def exists(self, partition: TopicPartition) -> bool:
        return partition.partition < self.topics.get(partition.topic, 0)

    def everything(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic, count in self.topics.items() for number in range(count)]


TestAnyGroup = AnyGroup.TestCase
