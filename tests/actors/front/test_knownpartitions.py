"""What a connection remembers of partitions: nothing of those that are gone, and never too much."""

from goqueue.actors.front.knownpartitions import LOOK_MIN, KnownPartitions
from goqueue.actors.runtime.mailbox import Mailbox
from goqueue.actors.runtime.ref import ActorRef


def there() -> tuple[Mailbox, ActorRef]:
    mailbox = Mailbox("partition", 1)
    mailbox.expect()
    return mailbox, ActorRef(mailbox)


async def test_one_that_was_noted_is_found_until_it_is_gone() -> None:
    known = KnownPartitions()
    mailbox, ref = there()
    known.note(b"topic", 3, ref)
    assert known.find(b"topic", 3) == ref
    assert known.find(b"topic", 4) is known.find(b"other", 3) is None
    mailbox.abandon("was deleted")
    assert known.find(b"topic", 3) is None


async def test_a_connection_that_outlives_many_topics_remembers_only_those_that_are_there() -> None:
    known = KnownPartitions(known_max=10)
    _, kept = there()
    known.note(b"kept", 0, kept)
    for number in range(1_000):
        mailbox, ref = there()
        known.note(b"short-lived", number, ref)
        mailbox.abandon("was deleted")
        assert len(known) <= 10
    assert known.find(b"kept", 0) == kept


async def test_what_is_remembered_is_in_proportion_to_what_is_there() -> None:
    known = KnownPartitions()
    for number in range(1_000):
        mailbox, ref = there()
        known.note(b"short-lived", number, ref)
        mailbox.abandon("was deleted")
        assert len(known) <= LOOK_MIN


async def test_with_very_many_it_begins_anew() -> None:
    known = KnownPartitions(known_max=10)
    refs = [there()[1] for _ in range(11)]
    for number, ref in enumerate(refs):
        known.note(b"topic", number, ref)
    assert len(known) == 1
    assert known.find(b"topic", 10) == refs[10]
