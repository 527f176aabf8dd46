from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.groups.takers import MEMBERS_MAX, Takers

steps = st.lists(
    st.tuples(st.sampled_from(("takes", "settles", "closes")), st.sampled_from("ab"), st.integers(1, 3)),
    max_size=30,
)


@given(steps)
def test_a_consumer_gives_back_what_it_took_since_it_came_and_nothing_of_others(
    life: list[tuple[str, str, int]],
) -> None:
    """Compared with a ledger that notes for each delivery which consumer took it, and in which of its spells."""
    takers, spells = Takers(), defaultdict[str, list[int]](list)
    held = defaultdict[str, dict[int, int]](dict)
    for nonce, (step, member, instance) in enumerate(life):
        if step == "takes":
            takers.note(member, instance, lambda name: frozenset(held[name]))
            if spells[member][-1:] != [instance]:
                spells[member].append(instance)
            held[member][nonce] = len(spells[member])
        elif step == "settles" and held[member]:
            del held[member][min(held[member])]
        elif step == "closes":
            is_taker = spells[member][-1:] == [instance]
            own = {each for each, spell in held[member].items() if is_taker and spell == len(spells[member])}
            assert takers.own(member, instance, held[member]) == own
            for each in own:
                del held[member][each]
            takers.forget(member)
            spells[member].append(0)


def test_the_oldest_member_is_forgotten_when_there_are_too_many() -> None:
    takers = Takers()
    for number in range(MEMBERS_MAX + 1):
        takers.note(f"member-{number}", 1, lambda _: frozenset())
    assert takers.own("member-0", 1, {7}) == frozenset()
    assert takers.own("member-1", 1, {7}) == {7}
