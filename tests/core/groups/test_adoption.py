"""Which groups come back from the ledgers, and which do not."""

from types import MappingProxyType
from uuid import UUID

from goqueue.core.groups.adoption import Adoption, HeldLedger, adoptions, settings_of
from goqueue.core.groups.registry import KnownGroup, SeenTopic
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.ledger.settings import LedgerSettings

ORDERS, BILLS = UUID(int=1), UUID(int=2)
STREAM = GroupSettings(mode="stream")


def ledger(
    number: int, *, group: str = "billing", group_id: int = 7, uuid: UUID = ORDERS, settings: GroupSettings = STREAM
) -> HeldLedger:
    topic = "orders" if uuid == ORDERS else "bills"
    return HeldLedger(group, group_id, settings, topic, uuid, number, 3)


def known(group_id: int = 7, *topics: SeenTopic, settings: GroupSettings | None = STREAM) -> KnownGroup:
    seen = MappingProxyType({topic.name: topic for topic in topics})
    return KnownGroup("billing", group_id, settings, topics=seen)


def seen(uuid: UUID = ORDERS, attached: int = 3) -> SeenTopic:
    return SeenTopic("orders" if uuid == ORDERS else "bills", uuid, 3, "earliest", attached)


def adopted(
    ledgers: list[HeldLedger],
    *groups: KnownGroup,
    leaving: tuple[KnownGroup, ...] = (),
    is_damaged: bool = True,
) -> list[Adoption]:
    return list(adoptions(groups, leaving, ledgers, is_damaged=is_damaged))


def test_a_group_that_the_register_lacks_comes_back_with_its_id_settings_and_topics() -> None:
    """G13: also where the register does not know that it is damaged."""
    ledgers = [ledger(0), ledger(1), ledger(2), ledger(0, uuid=BILLS), ledger(2, uuid=BILLS)]
    for is_damaged in (False, True):
        assert adopted(ledgers, is_damaged=is_damaged) == [
            Adoption("billing", 7, True, STREAM, (seen(), seen(BILLS, attached=1)))
        ]


def test_a_group_that_the_register_knows_whole_is_left_alone() -> None:
    assert adopted([ledger(0), ledger(1)], known(7, seen())) == []


def test_a_topic_and_settings_that_the_register_lacks_are_added() -> None:
    assert adopted([ledger(0), ledger(0, uuid=BILLS)], known(7, seen())) == [
        Adoption("billing", 7, False, None, (seen(BILLS, attached=1),))
    ]
    assert adopted([ledger(0)], known(7, seen(), settings=None)) == [Adoption("billing", 7, False, STREAM, ())]


def test_a_group_that_was_deleted_stays_so() -> None:
    """Be it that another of its name is there."""
    assert adopted([ledger(0)], leaving=(known(7, seen()),)) == []
    assert adopted([ledger(0), ledger(1, group_id=8)], known(8, seen()), leaving=(known(7),)) == []


def test_what_is_left_of_a_deleted_group_is_left_alone_unless_the_register_is_damaged() -> None:
    """A register that lost its end may know a group that was deleted and made again under its first id."""
    assert adopted([ledger(0)], known(8, seen()), is_damaged=False) == []
    assert adopted([ledger(0)], known(8, seen())) == [Adoption("billing", 7, True, STREAM, (seen(attached=1),))]
    assert adopted([ledger(0), ledger(1, group_id=8)], known(8, seen())) == []


def test_of_two_ids_the_one_that_most_ledgers_have_is_taken() -> None:
    ledgers = [ledger(0, group_id=9), ledger(1), ledger(2)]
    [adoption] = adopted(ledgers)
    assert (adoption.id, adoption.topics) == (7, (seen(attached=0),))


def test_the_broker_s_own_group_has_no_settings() -> None:
    [adoption] = adopted([ledger(0, group="__redrive")])
    assert adoption.settings is None


def test_a_ledger_of_an_older_goqueue_gives_a_queue_with_what_it_knows() -> None:
    plain = LedgerSettings(max_deliveries=9, key_order=True, strict_lanes=True)
    assert settings_of(None, plain) == GroupSettings(max_deliveries=9, key_order=True, lanes="strict")
    assert settings_of(STREAM.to_plain(), plain) == STREAM
