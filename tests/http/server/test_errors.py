"""Every code has a status, or never leaves a client or a process."""

import importlib
import pkgutil
from collections.abc import Iterator
from http import HTTPStatus

import pytest

import goqueue
from goqueue.errors import GoQueueError, SchemaConflict, UnknownSubject
from goqueue.http.server.errors import STATUS, STAYS_INSIDE, HttpError, status_of


def classes(root: type[GoQueueError]) -> Iterator[type[GoQueueError]]:
    yield root
    for each in root.__subclasses__():
        yield from classes(each)


@pytest.fixture(scope="module")
def all_classes() -> list[type[GoQueueError]]:
    """Those of all modules, whoever imported them before."""
    for module in pkgutil.walk_packages(goqueue.__path__, "goqueue."):
        if not module.name.startswith(("goqueue.spark", "goqueue.__main__")):
            importlib.import_module(module.name)
    return [each for each in classes(GoQueueError) if each.__module__.startswith("goqueue.")]


def test_every_code_has_a_status_or_a_mark_that_it_stays_inside(all_classes: list[type[GoQueueError]]) -> None:
    codes = {each.code for each in all_classes if not issubclass(each, HttpError)}
    assert codes - STATUS.keys() - STAYS_INSIDE == set(), "put them into one of the two tables"
    assert not STATUS.keys() & STAYS_INSIDE


def test_no_table_has_a_code_that_nobody_raises(all_classes: list[type[GoQueueError]]) -> None:
    codes = {each.code for each in all_classes}
    assert STATUS.keys() - codes == set()
    assert {each for each in STAYS_INSIDE if "spark" not in each} - codes <= {"row_refused", "table_in_use"}


def test_every_status_is_one_of_http_and_an_error(all_classes: list[type[GoQueueError]]) -> None:
    for each in all_classes:
        error = each.__new__(each)
        GoQueueError.__init__(error, "")
        status = status_of(error)
        assert HTTPStatus(status).value // 100 in (4, 5)


def test_what_may_be_repeated_is_no_fault_of_the_request(all_classes: list[type[GoQueueError]]) -> None:
    """A client that repeats by the status does what one does that repeats by `retryable`."""
    repeatable = {408, 429, 500, 503, 504, 507}
    faults = {each.code: STATUS.get(each.code) for each in all_classes if each.retryable and each.code in STATUS}
    assert {code for code, status in faults.items() if status not in repeatable} <= {"corrupt_message"}


@pytest.mark.parametrize(
    ("error_code", "status"),
    [(40401, 404), (40407, 404), (409, 409), (40901, 409), (42201, 422), (422, 422), (404, 404), (50001, 422)],
)
def test_the_status_of_a_refusal_of_the_registry_is_in_its_number(error_code: int, status: int) -> None:
    assert status_of(SchemaConflict("no", error_code=error_code)) == status


def test_a_refusal_of_the_registry_without_a_number_has_the_status_of_its_code() -> None:
    assert (status_of(UnknownSubject("no")), status_of(SchemaConflict("no"))) == (404, 422)
