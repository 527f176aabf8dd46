"""The partitions that a session has used, so that it need not look them up for each batch.

A session may outlive thousands of topics: whenever there are twice as many as at the last cleanup, those of
deleted topics are forgotten, so that memory is in proportion to the partitions that exist.
"""

from goqueue.actors.runtime.ref import ActorRef

KNOWN_MAX = 4_096
LOOK_MIN = 64
"""Minimum number for a cleanup."""


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

    def topic_name(self, topic: bytes) -> str | None:
        """The name of a topic with a partition that was used; a partition's name begins with it."""
        names = (ref.name.partition("/")[0] for (uuid, _), ref in self._refs.items() if uuid == topic)
        return next(names, None)

    def _forget_those_gone(self) -> None:
        self._refs = {key: each for key, each in self._refs.items() if not each.is_down}
        if len(self._refs) >= self._known_max:
            self._refs.clear()
        self._look_at = min(self._known_max, max(LOOK_MIN, 2 * len(self._refs)))
