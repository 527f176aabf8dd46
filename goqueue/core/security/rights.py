"""The rights that each kind of request needs, as one table, and the gate that asks it.

A permission is a right on a resource: `publish` on topic `orders`. A rule says which permissions a request needs,
and whether the audit shows it. It reads the request's fields, whatever class the request is of. Kinds have the
names that the protocol's page gives them; a kind without a rule is not served.

A topic is named by its name, or by its UUID where the request has only that. None in place of a name stands for all
resources of that type. A request that lists everything needs nothing: what a principal may not describe is left out
of the answer.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from goqueue.core.names import dead_letter_topic
from goqueue.core.security.principals import Principal


class Right(Enum):
    PUBLISH = "publish"
    CONSUME = "consume"
    READ = "read"
    DESCRIBE = "describe"
    REGISTER = "register"
    CREATE = "create"
    ALTER = "alter"
    DELETE = "delete"


class Resource(Enum):
    TOPIC = "topic"
    GROUP = "group"
    SUBJECT = "subject"
    CLUSTER = "cluster"


class Permission(NamedTuple):
    right: Right
    resource: Resource
    name: str | bytes | None = None


Needs: TypeAlias = Iterator[Permission]


class Rule(NamedTuple):
    needs: Callable[[Any], Needs]
    """The permissions. The audit shows the first."""
    is_audited: Callable[[Any], bool]


# Permissions, by the fields of a request


def _topic(right: Right, field: str = "name") -> Callable[[Any], Needs]:
    name_of = attrgetter(field)
    return lambda request: iter((Permission(right, Resource.TOPIC, name_of(request)),))


def _group(right: Right, field: str = "group") -> Callable[[Any], Needs]:
    name_of = attrgetter(field)
    return lambda request: iter((Permission(right, Resource.GROUP, name_of(request)),))


def _cluster(right: Right) -> Callable[[Any], Needs]:
    return lambda _: iter((Permission(right, Resource.CLUSTER),))


def _nothing(_: Any) -> Needs:
    """An id of a producer is no right: it publishes nothing by itself. Probes have no key."""
    return iter(())


def _each_named(resource: Resource) -> Callable[[Any], Needs]:
    return lambda request: (Permission(Right.DESCRIBE, resource, name) for name in request.names or ())


def _topics_of(right: Right, items: Any) -> Needs:
    return (Permission(right, Resource.TOPIC, topic) for topic in dict.fromkeys(item.topic for item in items))


def _produce(request: Any) -> Needs:
    return _topics_of(Right.PUBLISH, request.batches)


def _fetch(request: Any) -> Needs:
    """A member of a group in stream mode consumes; anybody else reads."""
    if request.group is None or request.member is None:
        yield from _topics_of(Right.READ, request.partitions)
    else:
        yield Permission(Right.CONSUME, Resource.GROUP, request.group)
        yield from _topics_of(Right.CONSUME, request.partitions)


def _join(request: Any) -> Needs:
    """A pattern stands for itself here. The topics that fit it are named when their messages are asked for."""
    yield Permission(Right.CONSUME, Resource.GROUP, request.group)
    for name in request.subscription:
        yield Permission(Right.CONSUME, Resource.TOPIC, name)


def _consume(request: Any) -> Needs:
    yield Permission(Right.CONSUME, Resource.GROUP, request.group)
    yield from _topics_of(Right.CONSUME, request.partitions)


def _skip_damaged(request: Any) -> Needs:
    yield Permission(Right.ALTER, Resource.GROUP, request.group)
    yield Permission(Right.DESCRIBE, Resource.TOPIC, request.topic)


def _redrive(request: Any) -> Needs:
    """Who has dead letters sent to all groups, or elsewhere, publishes them there."""
    yield Permission(Right.READ, Resource.TOPIC, dead_letter_topic(request.topic))
    yield Permission(Right.CONSUME, Resource.GROUP, request.group)
    if request.to is not None or request.all_groups:
        yield Permission(Right.PUBLISH, Resource.TOPIC, request.topic if request.to is None else request.to)


def _dismiss(request: Any) -> Needs:
    yield Permission(Right.READ, Resource.TOPIC, dead_letter_topic(request.topic))
    yield Permission(Right.CONSUME, Resource.GROUP, request.group)


def _letters(right: Right) -> Callable[[Any], Needs]:
    return lambda request: iter((Permission(right, Resource.TOPIC, dead_letter_topic(request.topic)),))


def _subject(right: Right) -> Callable[[Any], Needs]:
    return lambda request: iter((Permission(right, Resource.SUBJECT, request.subject),))


def _register(request: Any) -> Needs:
    """Who skips the comparison with earlier versions, or gives ids, does what the subject's settings forbid. A
    schema shows what it refers to."""
    if request.force or request.id is not None or request.version is not None:
        yield Permission(Right.ALTER, Resource.SUBJECT, request.subject)
    yield Permission(Right.REGISTER, Resource.SUBJECT, request.subject)
    yield from _referred(request)


def _with_references(request: Any) -> Needs:
    yield Permission(Right.READ, Resource.SUBJECT, request.subject)
    yield from _referred(request)


def _referred(request: Any) -> Needs:
    subjects = dict.fromkeys(each.subject for each in request.schema.references)
    return (Permission(Right.READ, Resource.SUBJECT, subject) for subject in subjects)


def _one_subject(request: Any) -> Needs:
    """An id or a guid names no subject, nor do the settings of all: these need nothing."""
    if request.subject is not None and not _is_by_id(request):
        yield Permission(Right.READ, Resource.SUBJECT, request.subject)


def _is_by_id(request: Any) -> bool:
    return getattr(request, "id", None) is not None or getattr(request, "guid", None) is not None


# Which requests the audit shows


def _always(_: Any) -> bool:
    return True


def _never(_: Any) -> bool:
    """It changes nothing; or it is one of the many by which messages flow, whose traces are in the log itself."""
    return False


def _unless_dry(request: Any) -> bool:
    return not request.dry_run


RULES: Mapping[str, Rule] = {
    "create_topic": Rule(_topic(Right.CREATE), _always),
    "alter_topic": Rule(_topic(Right.ALTER), _always),
    "add_partitions": Rule(_topic(Right.ALTER), _always),
    "describe_topics": Rule(_each_named(Resource.TOPIC), _never),
    "delete_topic": Rule(_topic(Right.DELETE), _always),
    "purge": Rule(_topic(Right.DELETE), _always),
    "delete_before": Rule(_topic(Right.DELETE), _always),
    "restore_partition": Rule(_topic(Right.ALTER), lambda request: bool(request.accept_loss)),
    "init_producer": Rule(_nothing, _never),
    "produce": Rule(_produce, _never),
    "fetch": Rule(_fetch, _never),
    "offset_at_time": Rule(_topic(Right.DESCRIBE, "topic"), _never),
    "stats": Rule(_cluster(Right.DESCRIBE), _never),
    "check_health": Rule(_nothing, _never),
    "take_snapshot": Rule(_cluster(Right.ALTER), _always),
    "join_group": Rule(_join, _never),
    "heartbeat": Rule(_group(Right.CONSUME), _never),
    "leave_group": Rule(_group(Right.CONSUME), _never),
    "receive": Rule(_consume, _never),
    "settle": Rule(_group(Right.CONSUME), _never),
    "describe_groups": Rule(_each_named(Resource.GROUP), _never),
    "alter_group": Rule(_group(Right.ALTER), _always),
    "delete_group": Rule(_group(Right.DELETE), _always),
    "reset_group": Rule(_group(Right.ALTER), _unless_dry),
    "skip_damaged": Rule(_skip_damaged, _unless_dry),
    "redrive": Rule(_redrive, _unless_dry),
    "dismiss": Rule(_dismiss, _unless_dry),
    "count_letters": Rule(_letters(Right.DESCRIBE), _never),
    "find_decisions": Rule(_letters(Right.READ), _never),
    "commit_offsets": Rule(_consume, lambda request: request.member is None),
    "ask_offsets": Rule(_group(Right.DESCRIBE), _never),
    "why": Rule(_group(Right.DESCRIBE), _never),
    "list_delayed": Rule(_topic(Right.READ, "topic"), _never),
    "find_delayed": Rule(_topic(Right.READ, "topic"), _never),
    "cancel_delayed": Rule(_topic(Right.PUBLISH, "topic"), _always),
    "move_delayed": Rule(_topic(Right.PUBLISH, "topic"), _always),
    "count_delayed": Rule(_topic(Right.DESCRIBE, "topic"), _never),
    "register_schema": Rule(_register, _always),
    "look_up_schema": Rule(_with_references, _never),
    "get_schema": Rule(_one_subject, _never),
    "list_subjects": Rule(_nothing, _never),
    "list_versions": Rule(_subject(Right.READ), _never),
    "list_schemas": Rule(_nothing, _never),
    "find_uses": Rule(_nothing, _never),
    "find_referrers": Rule(_subject(Right.READ), _never),
    "delete_schema": Rule(_subject(Right.DELETE), _always),
    "check_schema": Rule(_with_references, _never),
    "read_schema_settings": Rule(_one_subject, _never),
    "change_schema_settings": Rule(_subject(Right.ALTER), _always),
    "count_schemas": Rule(_nothing, _never),
    "fetch_registry": Rule(_cluster(Right.ALTER), _never),
}
"""Who may publish a delayed message may also take it back. A snapshot holds all topics and groups, and is for
operators."""


def authorise(principal: Principal, kind: str, request: Any) -> None:  # noqa: ARG001
    """Raise an error unless the principal has every right that the request needs. Everybody has every right, as
    long as there are no keys."""
    assert kind in RULES, f"{kind} has no rule"
