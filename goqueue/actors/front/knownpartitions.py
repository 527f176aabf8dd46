"""The partitions that a connection has spoken to, so that it need not ask for each batch where one is.

A connection may outlive thousands of topics: whenever there are twice as many as at the last look, those that are
gone are forgotten, so that what is kept is in proportion to what is there.
"""

from goqueue.actors.runtime.ref import ActorRef

KNOWN_MAX = 4_096
LOOK_MIN = 64
"""Fewer are not worth a look."""


class KnownPartitions:
    def __init__(self, known_max: int = KNOWN_MAX) -> None:
        self._known_max = known_max
        self._look_at = min(LOOK_MIN, known_max)
        self._refs: dict[tuple[bytes, int], ActorRef] = {}

    def __len__(self) -> int:
        return len(self._refs)

    def find(self, topic: bytes, number: int) -> ActorRef | None:
        ref = self._refs.get((topic, number))
        return None if ref is None or ref.is_down else ref

    def note(self, topic: bytes, number: int, ref: ActorRef) -> None:
        if len(self._refs) >= self._look_at:
            self._forget_those_gone()
        self._refs[topic, number] = ref

    def _forget_those_gone(self) -> None:
        self._refs = {key: each for key, each in self._refs.items() if not each.is_down}
        if len(self._refs) >= self._known_max:
            self._refs.clear()
        self._look_at = min(self._known_max, max(LOOK_MIN, 2 * len(self._refs)))
