"""Whether a schema could be registered: what is incompatible, and what would make it compatible."""

from typing import cast

from goqueue.http.routes.registry.forms import (
    SchemaFields,
    registry_response,
    registry_route,
    subject_of,
    version_in_path,
)
from goqueue.http.routing.route import HttpCall, Model
from goqueue.http.server.exchange import Response
from goqueue.net.wire import schemas as wire


class CheckQuery(Model):
    verbose: bool = False
    """With `messages`, which say what is incompatible."""
    normalize: bool = False


class CheckAnswer(Model):
    is_compatible: bool
    messages: list[str] = []  # noqa: RUF012  # of a class that is never written to


async def check(call: HttpCall[CheckQuery, SchemaFields]) -> Response:
    """With one version, or as the level of the subject says."""
    named = call.path.get("version")
    request = wire.CheckSchema(
        subject_of(call),
        call.body.in_wire(),
        None if named is None else version_in_path(named),
        call.query.normalize or None,
    )
    checked = cast(wire.SchemaChecked, await call.ask(request))
    messages = {"messages": [_sentence(each) for each in checked.findings]} if call.query.verbose else {}
    return registry_response({"is_compatible": checked.is_compatible, **messages})


def _sentence(finding: wire.SchemaFinding) -> str:
    compared = f" (version {finding.version})" if finding.version else ""
    return f"{finding.type} at {finding.path}{compared}: {finding.help}"


PATH = "/compatibility/subjects/{subject}/versions"
ERRORS = ("unknown_subject", "unknown_schema", "invalid_schema")
_EXAMPLE = """-d '{"schemaType": "JSON", "schema": "{\\"type\\": \\"object\\"}"}'"""
ROUTES = (
    registry_route(
        "POST",
        PATH,
        check,
        "Compare a schema with the versions that the level of the subject names.",
        query=CheckQuery,
        body=SchemaFields,
        answer=CheckAnswer,
        errors=ERRORS,
        asks=(wire.CheckSchema,),
        example=f"{_EXAMPLE} '$URL{PATH.format(subject='customers-value')}?verbose=true'",
    ),
    registry_route(
        "POST",
        f"{PATH}/{{version}}",
        check,
        "Compare a schema with one version.",
        query=CheckQuery,
        body=SchemaFields,
        answer=CheckAnswer,
        errors=ERRORS,
        asks=(wire.CheckSchema,),
        example=f"{_EXAMPLE} $URL{PATH.format(subject='customers-value')}/latest",
    ),
)
