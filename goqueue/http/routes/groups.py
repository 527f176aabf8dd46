"""Groups, for operators: what they have, how far they are, and why nothing comes."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, TypeAlias, cast

from pydantic import Field

from goqueue.client.consuming.options import start_text
from goqueue.client.groups import GroupPartition, altering, member_of, partition_of, resetting
from goqueue.core.groups.settings import SETTINGS
from goqueue.http.routes.topics import LISTED_MAX, Config, Limit
from goqueue.http.routing.answers import NOTHING, json_response, plain
from goqueue.http.routing.route import HttpCall, Model, Name, Route
from goqueue.http.routing.settings import settings_schema
from goqueue.http.server.exchange import Response
from goqueue.net.wire import groups as wire
from goqueue.net.wire.failures import error_body
from goqueue.net.wire.fields import INTEGER_MAX
from goqueue.storage.slices import Slices

GROUP = "Groups"
_DATE = r"[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = r"([01][0-9]|2[0-3])(:[0-5][0-9]){1,2}(\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
START_SHAPE: dict[str, Any] = {"pattern": rf"^(earliest|latest|last:[1-9][0-9]{{0,8}}|{_DATE}([T ]{_TIME})?)$"}
_StartText = Annotated[str, Field(json_schema_extra=START_SHAPE)]
Start: TypeAlias = Annotated[int, Field(ge=0, le=INTEGER_MAX)] | _StartText


class GroupsQuery(Model):
    prefix: str = ""
    after: str = ""
    """The last name of the page before."""
    limit: Limit = LISTED_MAX


class GroupSummary(Model):
    name: str
    state: str
    members: int
    lag: int
    in_flight: int


class GroupsAnswer(Model):
    groups: list[GroupSummary]
    next: str | None = None


class GroupAnswer(Model):
    name: str
    state: str
    generation: int
    settings: Config
    members: list[dict[str, Any]]
    partitions: list[dict[str, Any]]


class AssignmentAnswer(Model):
    generation: int
    members: dict[str, dict[str, list[int]]]
    """The partitions of each topic, by member."""


class OffsetsAnswer(Model):
    offsets: dict[str, dict[str, int]]
    """Committed: everything below is done. By topic and partition."""


class ChangedGroup(Model):
    settings: Annotated[Config, Field(json_schema_extra=settings_schema(SETTINGS, may_reset=True))]
    force: bool = False
    """Also while the group has members."""


class ResetBody(Model):
    start: Start
    """`earliest`, `latest`, `last:N`, an offset, or a time in ISO."""
    topic: Name | None = None
    partition: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    dry_run: bool = False
    force: bool = False


class ResetAnswer(Model):
    partitions: list[dict[str, Any]]


class WhyQuery(Model):
    member: str | None = None


class WhyAnswer(Model):
    why: str
    facts: dict[str, Any]


async def describe_all(call: HttpCall[GroupsQuery, None]) -> Response:
    asked = call.query
    found = cast(wire.Groups, await call.ask(wire.DescribeGroups(None))).groups
    wanted = sorted(
        (each for each in found if each.name.startswith(asked.prefix) and each.name > asked.after),
        key=lambda each: each.name,
    )
    page, shown, slices = wanted[: asked.limit], list[dict[str, Any]](), Slices()
    for each in page:
        shown.append(_summary(each))
        await slices.step()
    answer: dict[str, Any] = {"groups": shown}
    if len(wanted) > len(page):
        answer["next"] = page[-1].name
    return json_response(answer)


def _summary(group: wire.GroupDescription) -> dict[str, Any]:
    return {
        "name": group.name,
        "state": group.state,
        "members": len(group.members),
        "lag": sum(each.lag for each in group.partitions),
        "in_flight": sum(each.in_flight for each in group.partitions),
    }


async def _in_json(group: wire.GroupDescription) -> dict[str, Any]:
    """In slices: it may have thousands of partitions."""
    members, partitions, slices = list[dict[str, Any]](), list[dict[str, Any]](), Slices()
    for member in group.members:
        members.append(_member_in_json(asdict(member_of(member))))
        await slices.step()
    for partition in group.partitions:
        partitions.append(_partition_in_json(partition_of(partition)))
        await slices.step()
    return {
        "name": group.name,
        "state": group.state,
        "generation": group.generation,
        "settings": {name: plain(value) for name, value in group.settings.items()},
        "members": members,
        "partitions": partitions,
    }


def _member_in_json(member: Mapping[str, Any]) -> dict[str, Any]:
    assignment = [{"topic": topic, "partition": partition} for topic, partition in member["assignment"]]
    return {**member, "assignment": assignment}


def _partition_in_json(partition: GroupPartition) -> dict[str, Any]:
    error = partition.error and error_body(partition.error)
    lanes = [{**asdict(each), "priority": str(each.priority)} for each in partition.lanes]
    told = {
        name: getattr(partition, name) for name in partition.__slots__ if name not in ("error", "lanes", "damages")
    }
    return {
        **told,
        "error": error and {"code": error.code, "message": error.message, "retryable": error.retryable},
        "lanes": lanes,
        "damages": [asdict(each) for each in partition.damages],
    }


async def describe(call: HttpCall[Any, Any]) -> Response:
    return json_response(await _in_json(await _described(call)))


async def _described(call: HttpCall[Any, Any]) -> wire.GroupDescription:
    [found] = cast(wire.Groups, await call.ask(wire.DescribeGroups((call.path["group"],)))).groups
    return found


async def assignment(call: HttpCall[None, None]) -> Response:
    group = await _described(call)
    members: dict[str, dict[str, list[int]]] = {}
    for member in group.members:
        mine = members.setdefault(member.member, {})
        for each in member.assignment:
            mine.setdefault(each.topic, []).append(each.partition)
    return json_response({"generation": group.generation, "members": members})


async def offsets(call: HttpCall[None, None]) -> Response:
    committed: dict[str, dict[str, int]] = {}
    for each in (await _described(call)).partitions:
        committed.setdefault(each.topic, {})[str(each.partition)] = each.committed
    return json_response({"offsets": committed})


async def change(call: HttpCall[None, ChangedGroup]) -> Response:
    asked = altering(call.path["group"], call.body.settings, call.body.force)
    [group] = cast(wire.Groups, await call.ask(asked)).groups
    return json_response(await _in_json(group))


async def delete(call: HttpCall[None, None]) -> Response:
    await call.ask(wire.DeleteGroup(call.path["group"]))
    return NOTHING


async def reset(call: HttpCall[None, ResetBody]) -> Response:
    asked = call.body
    start_text(asked.start)
    request = resetting(
        call.path["group"],
        asked.start,
        topic=asked.topic,
        partition=asked.partition,
        dry_run=asked.dry_run,
        force=asked.force,
    )
    done = cast(wire.GroupReset, await call.ask(request))
    return json_response({"partitions": [each._asdict() for each in done.partitions]})


async def why(call: HttpCall[WhyQuery, None]) -> Response:
    found = cast(wire.Because, await call.ask(wire.Why(call.path["group"], call.query.member)))
    return json_response({"why": found.why, "facts": {name: plain(value) for name, value in found.facts.items()}})


GROUP_ERRORS = ("unknown_group", "invalid_name")
ROUTES = (
    Route(
        "GET",
        "/groups",
        describe_all,
        "List groups in the order of their names, a page at a time.",
        GROUP,
        query=GroupsQuery,
        answer=GroupsAnswer,
        errors=("too_large", "unavailable"),
        asks=(wire.DescribeGroups,),
        example="$URL/groups",
    ),
    Route(
        "GET",
        "/groups/{group}",
        describe,
        "Show a group: its settings, members, and how far it is with each partition.",
        GROUP,
        answer=GroupAnswer,
        errors=GROUP_ERRORS,
        asks=(wire.DescribeGroups,),
        example="$URL/groups/billing",
    ),
    Route(
        "PATCH",
        "/groups/{group}",
        change,
        "Alter settings of a group without members, or by force.",
        GROUP,
        body=ChangedGroup,
        answer=GroupAnswer,
        errors=(*GROUP_ERRORS, "invalid_config", "group_conflict", "unavailable"),
        asks=(wire.AlterGroup,),
        example="""-X PATCH -d '{"settings": {"max_deliveries": 5}, "force": true}' $URL/groups/billing""",
    ),
    Route(
        "DELETE",
        "/groups/{group}",
        delete,
        "Delete a group without members, and its progress.",
        GROUP,
        status=204,
        errors=(*GROUP_ERRORS, "group_conflict", "unavailable"),
        asks=(wire.DeleteGroup,),
    ),
    Route(
        "GET",
        "/groups/{group}/assignment",
        assignment,
        "Show which member has which partitions.",
        GROUP,
        answer=AssignmentAnswer,
        errors=GROUP_ERRORS,
        asks=(wire.DescribeGroups,),
        example="$URL/groups/billing/assignment",
    ),
    Route(
        "GET",
        "/groups/{group}/offsets",
        offsets,
        "Show the committed offsets of a group.",
        GROUP,
        answer=OffsetsAnswer,
        errors=GROUP_ERRORS,
        asks=(wire.DescribeGroups,),
        example="$URL/groups/billing/offsets",
    ),
    Route(
        "POST",
        "/groups/{group}/reset",
        reset,
        "Begin again elsewhere. A dry run only says what would be.",
        GROUP,
        body=ResetBody,
        answer=ResetAnswer,
        errors=(
            *GROUP_ERRORS,
            "invalid_config",
            "group_conflict",
            "unknown_topic",
            "unknown_partition",
            "unavailable",
        ),
        asks=(wire.ResetGroup,),
        example="""-d '{"start": "earliest", "dry_run": true}' $URL/groups/billing/reset""",
    ),
    Route(
        "GET",
        "/why/groups/{group}",
        why,
        "Say in a sentence why nothing is delivered to a group, or to a member of it.",
        GROUP,
        query=WhyQuery,
        answer=WhyAnswer,
        errors=(*GROUP_ERRORS, "unknown_member"),
        asks=(wire.Why,),
        example="$URL/why/groups/billing",
    ),
)
