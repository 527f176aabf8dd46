"""The OpenAPI document: valid, and whole."""

import re
from http import HTTPStatus
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from schemathesis.specs.openapi import definitions

from goqueue.http.routes import ROUTES
from goqueue.http.routing.openapi import EVERYWHERE, OF_HTTP, operation_id, refusals
from goqueue.http.server.errors import STATUS, HttpError
from goqueue.net.wire.kinds import ANSWERS
from tests.http.declared import the_document


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in the_document()["paths"].items()
        for method, operation in methods.items()
    ]


def test_it_is_valid_openapi_3_1() -> None:
    Draft202012Validator(definitions.OPENAPI_31).validate(the_document())


def test_every_route_is_in_it_and_nothing_else() -> None:
    assert {(method, path) for method, path, _ in operations()} == {(each.method, each.path) for each in ROUTES}


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in names)


def test_every_reference_leads_somewhere() -> None:
    text = str(the_document())
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in the_document()["components"]["schemas"]


@pytest.mark.parametrize("route", ROUTES, ids=operation_id)
def test_a_route_says_what_it_is_for_and_which_codes_it_has(route: Any) -> None:
    assert route.summary.endswith(".")
    assert len(set(route.errors)) == len(route.errors)
    for code in route.errors:
        assert code in STATUS or code in OF_HTTP, code
    for kind in route.asks:
        assert kind in ANSWERS, kind
    for status in (route.status, *route.also):
        assert HTTPStatus(status).value // 100 == 2
    assert not refusals(route).keys() & {route.status, *route.also}


def test_codes_that_any_route_may_have_are_under_their_status() -> None:
    own = {each.code: each.status for each in HttpError.__subclasses__()}
    for status, codes in EVERYWHERE.items():
        for code in codes:
            assert own.get(code, STATUS.get(code)) == status, code
