"""Hints for programs that use what `connect` returns without entering it, or by the wrong kind of `with`.

They are added to the class at run time only: for a type checker it has no such names, and these calls are errors.
"""

from collections.abc import Callable
from typing import NoReturn, TypeVar

KindT = TypeVar("KindT", bound=type)
OF_WITH, OF_ASYNC_WITH = ("__enter__", "__exit__"), ("__aenter__", "__aexit__")


def entered_by(block: str, otherwise: str) -> Callable[[KindT], KindT]:
    """`block` is the right way in, such as `async with goqueue.connect() as client`; `otherwise` says what to use
    where only the other kind of `with` can be written."""

    def dress(kind: KindT) -> KindT:
        def missing(self: object, name: str) -> NoReturn:
            raise AttributeError(f"this is no client yet: `{block}` gives one", name=name, obj=self)

        def refuse(*_: object) -> NoReturn:
            raise TypeError(f"it is entered by `{block}`; {otherwise}")

        wrong = OF_WITH if block.startswith("async ") else OF_ASYNC_WITH
        for name, function in (("__getattr__", missing), *((each, refuse) for each in wrong)):
            setattr(kind, name, function)
        return kind

    return dress
