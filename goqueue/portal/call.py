"""One call from another thread into Trio's."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import trio

T = TypeVar("T")


class Call(Generic[T]):
    """Settled once, by the Trio thread, which then runs `on_settled`. The first settlement holds."""

    __slots__ = ("_error", "_is_settled", "_on_settled", "_value", "scope", "unsettled")

    def __init__(self, on_settled: Callable[[], object]) -> None:
        self._on_settled = on_settled
        self._is_settled = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self.scope = trio.CancelScope()
        """The scope of its work. Only the Trio thread may cancel it."""
        self.unsettled: set[Call[Any]] = set()
        """The set that holds it until it is settled."""

    def succeed(self, value: T) -> None:
        self._settle(value, None)

    def fail(self, error: BaseException) -> None:
        self._settle(None, error)

    def _settle(self, value: T | None, error: BaseException | None) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._value, self._error = value, error
            self.unsettled.discard(self)
            self._on_settled()

    def result(self) -> T:
        """The result of a settled call; called once."""
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error, self  # the error's traceback holds this frame, which must not hold the error
        return self._value  # type: ignore[return-value]  # None only where T allows it
