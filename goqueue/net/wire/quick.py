"""Small frames, built by msgpack in one go and then looked at.

The strict reader takes a frame apart field by field, so that a hostile one costs no more memory than a few times
its size. A small one may cost what it likes, and to build it whole takes a fifth of the time: most of a lone
publish's frames are small. This way knows only what is right. Whatever it does not find so is left to the strict
reader, which says what is wrong with it.

A checker is a function whose source is written here, from the annotations of a message, as those of named tuples
are: the tests of its fields stand in one function. A call for each field takes five times as long.
"""

from collections.abc import Callable, Iterator
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


def body_checker(body: Any) -> Checker:
    """The checker of a message, or of a part of one that has fields."""
    hints = get_type_hints(body, include_extras=True)
    fields = [hints[name] for name in body._fields]
    required, shorter = len(fields) - len(body._field_defaults), dict[int, Checker]()

    def check_other(value: list[Any]) -> Any:
        """Fields that an older end leaves out have defaults; those that a newer one adds are not asked for."""
        count = len(value)
        if count > len(fields):
            return check(value[: len(fields)])
        if count not in shorter:
            shorter[count] = _checker_of(body, fields[:count], _refuse) if count >= required else _refuse
        return shorter[count](value)

    check = _checker_of(body, fields, check_other)
    return check


def _refuse(_: list[Any]) -> Any:
    raise Unfit


def _checker_of(body: Any, fields: list[Any], check_other: Checker) -> Checker:
    """`check_other` is asked about lists of another length."""
    names: dict[str, Any] = {"Unfit": Unfit, "body": body, "check_other": check_other}
    items = [f"item_{number}" for number in range(len(fields))]
    lines = [
        "def check(value):",
        "    if type(value) is not list: raise Unfit",
        f"    if len(value) != {len(fields)}: return check_other(value)",
    ]
    if items:
        lines.append(f"    {', '.join(items)}, = value")
    for item, annotation in zip(items, fields, strict=True):
        lines += [f"    {line}" for line in _lines_for(item, annotation, names)]
    lines.append(f"    return body({', '.join(items)})")
    return _made(lines, names)


def _made(lines: list[str], names: dict[str, Any]) -> Checker:
    exec("\n".join(lines), names)
    return names["check"]  # type: ignore[no-any-return]


def _lines_for(item: str, annotation: Any, names: dict[str, Any]) -> Iterator[str]:
    """The lines that check one value, and replace it by its typed one. They use `names`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        base, limit = get_args(annotation)
        yield from _limited(item, base, limit, names)
    elif origin in (Union, UnionType):
        (kept,) = [each for each in get_args(annotation) if each is not NoneType]
        yield f"if {item} is not None:"
        yield from (f"    {line}" for line in _lines_for(item, kept, names))
    elif annotation is bool:
        yield f"if type({item}) is not bool: raise Unfit"
    else:
        names[f"check_{item}"] = body_checker(annotation)
        yield f"{item} = check_{item}({item})"


def _limited(item: str, base: Any, limit: Range | Size | Count, names: dict[str, Any]) -> Iterator[str]:
    if isinstance(limit, Range):
        yield f"if type({item}) is not int or not {limit.lowest} <= {item} <= {limit.highest}: raise Unfit"
    elif isinstance(limit, Size):
        wrong = f"not {limit.smallest} <= len({item}) <= {limit.largest}"
        yield f"if type({item}) is not {base.__name__} or {wrong}: raise Unfit"
    elif get_origin(base) is dict:
        names[f"check_{item}"] = _map(limit.most)
        yield f"{item} = check_{item}({item})"
    else:
        names[f"check_{item}"] = _item_checker(get_args(base)[0])
        yield f"if type({item}) is not list or len({item}) > {limit.most}: raise Unfit"
        yield f"{item} = tuple([check_{item}(each) for each in {item}]) if {item} else ()"


def _item_checker(annotation: Any) -> Checker:
    """The checker of the items of a list."""
    if hasattr(annotation, "_fields"):
        return body_checker(annotation)
    names: dict[str, Any] = {"Unfit": Unfit}
    lines = [f"    {line}" for line in _lines_for("value", annotation, names)]
    return _made(["def check(value):", *lines, "    return value"], names)


def _map(most: int) -> Checker:
    def check_all(value: Any) -> dict[str, Scalar]:
        if type(value) is not dict or len(value) > most:
            raise Unfit
        for key, item in value.items():
            if type(key) is not str or len(key) > NAME_SIZE_MAX or not is_scalar(item):
                raise Unfit
        return value

    return check_all
