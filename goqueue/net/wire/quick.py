"""Small frames, built by msgpack in one go and then looked at.

The strict reader takes a frame apart field by field, so that a hostile one costs no more memory than a few times
its size. A small one may cost what it likes, and to build it whole takes a fifth of the time: most of a lone
publish's frames are small. This way knows only what is right. Whatever it does not find so is left to the strict
reader, which says what is wrong with it.
"""

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgpack
from msgpack.exceptions import UnpackException

from goqueue.net.wire.fields import NAME_SIZE_MAX, Count, Range, Size, is_scalar
from goqueue.types import Buffer, Scalar

SMALL_SIZE_MAX = 4 * 1024
"""At the worst, each byte is an empty array: half a megabyte, for a moment."""


class Unfit(Exception):
    """Not plainly right: for the strict reader."""


Checker: TypeAlias = Callable[[Any], Any]
"""Makes the typed value of what msgpack built, or raises `Unfit`."""


def built_from(frame: Buffer) -> list[Any] | None:
    """The elements of a small frame; None when it has to be read strictly."""
    if len(frame) > SMALL_SIZE_MAX:
        return None
    try:
        built = msgpack.unpackb(frame)
    except (ValueError, UnpackException):
        return None
    return built if type(built) is list else None


def checker_of(annotation: Any) -> Checker:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _limited(*get_args(annotation))
    if origin in (Union, UnionType):
        (kept,) = [each for each in get_args(annotation) if each is not NoneType]
        return _optional(checker_of(kept))
    return _boolean if annotation is bool else body_checker(annotation)


def body_checker(body: Any) -> Checker:
    hints = get_type_hints(body, include_extras=True)
    checks = tuple(checker_of(hints[name]) for name in body._fields)
    required = len(checks) - len(body._field_defaults)

    def check(value: Any) -> Any:
        if type(value) is not list or len(value) < required:
            raise Unfit
        # Fields that an older end leaves out have defaults; those that a newer one adds are not asked for.
        return body(*[each(item) for each, item in zip(checks, value, strict=False)])

    return check


def _limited(base: Any, limit: Range | Size | Count) -> Checker:
    if isinstance(limit, Range):
        return _integer(limit)
    if isinstance(limit, Size):
        return _sized(base, limit)
    if get_origin(base) is dict:
        return _map(limit.most)
    return _list(checker_of(get_args(base)[0]), limit.most)


def _integer(limit: Range) -> Checker:
    lowest, highest = limit

    def check(value: Any) -> int:
        if type(value) is not int or not lowest <= value <= highest:
            raise Unfit
        return value

    return check


def _sized(base: type[str] | type[bytes], limit: Size) -> Checker:
    smallest, largest = limit

    def check(value: Any) -> str | bytes:
        if type(value) is not base or not smallest <= len(value) <= largest:
            raise Unfit
        return value

    return check


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise Unfit
    return value


def _optional(check: Checker) -> Checker:
    return lambda value: None if value is None else check(value)


def _list(check: Checker, most: int) -> Checker:
    def check_all(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) > most:
            raise Unfit
        return tuple([check(item) for item in value])

    return check_all


def _map(most: int) -> Checker:
    def check_all(value: Any) -> dict[str, Scalar]:
        if type(value) is not dict or len(value) > most:
            raise Unfit
        for key, item in value.items():
            if type(key) is not str or len(key) > NAME_SIZE_MAX or not is_scalar(item):
                raise Unfit
        return value

    return check_all
