"""Combined schemas: `allOf`, `anyOf` and `oneOf`, matched member by member.

`oneOf` refuses what fits two members. So it is not enough that each old member is read by a new one: a member that
was added or changed must not take values of the others, or they, once accepted, would be refused.
"""

from goqueue.core.schemas.compatibility.comparing.comparison import Comparison, Steps, compared
from goqueue.core.schemas.compatibility.comparing.disjoint import are_disjoint
from goqueue.core.schemas.compatibility.comparing.matching import matched
from goqueue.core.schemas.compatibility.nodes.node import Node, Path, UnionMembers
from goqueue.core.schemas.compatibility.nodes.values import ABSENT, Absence, Json


def read_of_union(comparison: Comparison, union: UnionMembers) -> Steps[None]:
    """The writer's schema is nothing but a union, the reader's has none: it has to read each member."""
    count, parts = 0, list[Comparison]()
    for place in range(len(union)):
        part = yield from compared(comparison.reader, union[place])
        count += part.is_compatible
        parts.append(part)
    values = {"old": union.shown, "new": comparison.reader.value}
    if count == len(union):
        comparison.note("COMBINED_TYPE_EXTENDED", **values)
    elif comparison.reader.conjuncts:
        comparison.refuse("COMBINED_TYPE_CHANGED", **values)
    else:
        comparison.refuse("SUM_TYPE_NARROWED" if count else "TYPE_CHANGED", **values)
        _explain(comparison, [((), part) for part in parts])


def _explain(comparison: Comparison, parts: list[tuple[Path, Comparison]]) -> None:
    """Show what keeps members from being read that are of the same type."""
    for path, part in parts:
        if not part.is_compatible and part.reader.types & part.writer.types:
            comparison.include(path, part)


def is_read_by_members(comparison: Comparison) -> Steps[bool]:
    """Whether the reader's own keywords grant all members of a union of the writer's."""
    for union in comparison.writer.all_unions:
        for place in range(len(union)):
            part = yield from compared(comparison.reader.bare, union[place])
            if not part.is_compatible:
                break
        else:
            return True
    return False


# Unions of the reader


def union(comparison: Comparison, members: UnionMembers) -> Steps[None]:
    writer = comparison.writer
    groups = [each for each in writer.all_unions if _may_become(each, members)]
    if not writer.all_unions and writer.by_type is not None:
        groups = [writer.by_type]
    trials = []
    for old in groups:
        trial = comparison.trial(comparison.reader, writer)
        yield from _matched_union(trial, old, members)
        trial.finish()
        if trial.is_compatible:
            _adopt(comparison, trial)
            return
        trials.append(trial)
    if (yield from _whole_is_read(comparison, members)):
        return
    if trials:
        _adopt(comparison, trials[0])
    else:
        yield from _refuse_union(comparison, members)


def _may_become(old: UnionMembers, new: UnionMembers) -> bool:
    return new.keyword in (old.keyword, "anyOf")


def _adopt(comparison: Comparison, trial: Comparison) -> None:
    comparison.differences += trial.differences
    comparison.parts += trial.parts


def _whole_is_read(comparison: Comparison, members: UnionMembers) -> Steps[bool]:
    """Whether one member reads the writer's schema as a whole."""
    for place in range(len(members)):
        if comparison.writer.is_only_union and not members[place].all_unions:
            continue  # members of unions are matched one to one
        part = yield from compared(members[place], comparison.writer)
        if part.is_compatible and (members.keyword == "anyOf" or _is_apart(comparison.writer, members, place)):
            comparison.note("SUM_TYPE_EXTENDED", old=comparison.writer.value, new=members.shown)
            comparison.include(members.path(place), part)
            return True
    return False


def _refuse_union(comparison: Comparison, members: UnionMembers) -> Steps[None]:
    writer, reading, parts = comparison.writer, None, list[tuple[Path, Comparison]]()
    for place in range(len(members)):
        part = yield from compared(members[place], writer)
        parts.append((members.path(place), part))
        reading = place if part.is_compatible else reading
    if writer.all_unions:
        comparison.refuse("COMBINED_TYPE_CHANGED", old=writer.value, new=members.shown)
    elif reading is not None:
        comparison.refuse("SUM_TYPE_MEMBERS_OVERLAP", *members.path(reading), old=writer.value, new=members.shown)
    else:
        comparison.refuse("TYPE_CHANGED", old=writer.value, new=members.shown)
        _explain(comparison, parts)


def _is_apart(writer: Node, members: UnionMembers, but: int) -> bool:
    return all(are_disjoint(writer, members[place]) for place in range(len(members)) if place != but)


def _matched_union(comparison: Comparison, old: UnionMembers, new: UnionMembers) -> Steps[None]:
    def fits(place: int, partner: int) -> Steps[bool]:
        return (yield from compared(new[partner], old[place])).is_compatible

    pairs = yield from matched(len(old), len(new), fits)
    values = {"old": old.shown, "new": new.shown}
    if old.keyword not in (new.keyword, "type"):
        comparison.note("COMBINED_TYPE_EXTENDED", **values)
    if len(old) < len(new):
        comparison.note("SUM_TYPE_EXTENDED", **values)
    elif len(old) > len(new):
        comparison.refuse("SUM_TYPE_NARROWED", **values)
    for place, partner in pairs.items():
        comparison.include(new.path(partner), (yield from compared(new[partner], old[place])))
    if len(pairs) < min(len(old), len(new)):
        comparison.refuse("COMBINED_TYPE_SUBSCHEMAS_CHANGED", **values)
        yield from _unmatched(comparison, old, new, pairs)
    elif new.keyword == "oneOf":
        yield from _overlaps(comparison, old, new, pairs)


def _unmatched(comparison: Comparison, old: UnionMembers, new: UnionMembers, pairs: dict[int, int]) -> Steps[None]:
    """What keeps a member from being read, by the one in its place."""
    free = [partner for partner in range(len(new)) if partner not in pairs.values()]
    for place in range(len(old)):
        if place not in pairs and free:
            partner = place if place in free else free[0]
            free.remove(partner)
            comparison.include(new.path(partner), (yield from compared(new[partner], old[place])))


def _overlaps(comparison: Comparison, old: UnionMembers, new: UnionMembers, pairs: dict[int, int]) -> Steps[None]:
    by_partner = {partner: place for place, partner in pairs.items()}
    for partner in range(len(new)):
        place = by_partner.get(partner)
        if place is not None and (yield from compared(old[place], new[partner])).is_compatible:
            continue  # the member is what it was
        for other in range(len(old)):
            yield None
            if other != place and not are_disjoint(old[other], new[partner]):
                refuse_overlap(comparison, old, new, partner)
                break


def refuse_overlap(comparison: Comparison, old: UnionMembers, new: UnionMembers, partner: int) -> None:
    place = new.path(partner)
    comparison.refuse("SUM_TYPE_MEMBERS_OVERLAP", *place, old=old.shown, new=new.values[partner])


# Schemas that all have to fit


def conjunction(comparison: Comparison) -> Steps[None]:
    reader, writer = comparison.reader.conjuncts, comparison.writer.conjuncts

    def fits(place: int, partner: int) -> Steps[bool]:
        return (yield from compared(reader[place].node, writer[partner].node)).is_compatible

    pairs = yield from matched(len(reader), len(writer), fits)
    failed = list[int]()
    for place, conjunct in enumerate(reader):
        if place in pairs:
            part = yield from compared(conjunct.node, writer[pairs[place]].node)
        else:
            part = yield from compared(conjunct.node, comparison.writer)
        if part.is_compatible:
            comparison.include(conjunct.path, part)
        else:
            failed.append(place)
    if len(reader) < len(writer):
        comparison.note("PRODUCT_TYPE_NARROWED", old=_all_of(comparison.writer), new=_all_of(comparison.reader))
    if failed:
        yield from _failed(comparison, failed, set(pairs.values()))


def _failed(comparison: Comparison, failed: list[int], taken: set[int]) -> Steps[None]:
    reader, writer = comparison.reader, comparison.writer
    if len(reader.conjuncts) > len(writer.conjuncts) and not _is_single(reader):
        comparison.refuse("PRODUCT_TYPE_EXTENDED", old=_all_of(writer), new=_all_of(reader))
    elif not _is_single(reader):
        comparison.refuse("COMBINED_TYPE_SUBSCHEMAS_CHANGED", old=_all_of(writer), new=_all_of(reader))
    for place in failed:
        conjunct = reader.conjuncts[place]
        is_beside = place < len(writer.conjuncts) and place not in taken
        old = writer.conjuncts[place].node if is_beside else writer
        comparison.include(conjunct.path, (yield from compared(conjunct.node, old)))


def _is_single(node: Node) -> bool:
    return len(node.conjuncts) == 1


def _all_of(node: Node) -> Json | Absence:
    return node.combined.get("allOf", ABSENT)
