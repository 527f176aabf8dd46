"""Publishers over HTTP: each request has an `Idempotency-Key`, and is repeated until all of it is decided."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import trio

import goqueue
from tests.sim.clients.history import Sent
from tests.sim.disk.history import Violation
from tests.sim.groups.shifts import Site
from tests.sim.http.history import TimedHistory
from tests.sim.http.lines import HttpLine, LineLost

REPEAT_SECONDS_MAX = 100.0
"""An id is remembered for two minutes."""
FIRED_SECONDS_MAX = 15.0
"""So long after it is due a delayed message has been fired, on a slow disk, too."""
PAUSES = (0.0, 0.2, 0.5, 1.5)
KEYS = (None, None, "a", "b", "longer key")
DELAYS = (0.3, 1.0, 3.0)
REFUSED_BYTES = 100_000


@dataclass(slots=True)
class HttpPublisher:
    name: str
    site: Site
    line: HttpLine
    random: Random
    history: TimedHistory
    sizes: Sequence[int]
    sends_large: bool
    """Some messages are larger than their topic allows."""
    _requests: int = 0
    _busy_until: float = 0.0

    async def run(self) -> None:
        try:
            while not self.site.stopping.is_set():
                await self._publish()
                await trio.sleep(self.random.choice(PAUSES))
            await trio.sleep_until(self._busy_until)
        finally:
            self.line.close()

    async def _publish(self) -> None:
        self._requests += 1
        topic = self.random.choice(list(self.history.partitions))
        is_delayed = self.random.random() < 0.2
        sent = [self._new(topic) for _ in range(self.random.randint(1, 5))]
        shown = [self._shown(each) for each in sent]
        delay = self.random.choice(DELAYS)
        for each, fields in zip(sent, shown, strict=True) if is_delayed else ():
            fields["delay"] = delay
            self.history.due[each.value] = trio.current_time() + delay
        await self._until_decided(topic, sent, shown, is_delayed=is_delayed)

    def _new(self, topic: str) -> Sent:
        self.count("http sent")
        number = self.site.tally["http sent"]
        is_large = self.sends_large and self.random.random() < 0.05
        size = REFUSED_BYTES if is_large else self.random.choice(self.sizes)
        sender, key = f"{self.name} {topic}", self.random.choice(KEYS)
        value = f"{sender} {number} ".encode() + b"." * size
        return self.history.send(sender, value, None if key is None else key.encode(), goqueue.Acks.ALL)

    def _shown(self, sent: Sent) -> dict[str, Any]:
        shown = {"value": sent.value.decode()}
        return shown if sent.key is None else {**shown, "key": sent.key.decode()}

    async def _until_decided(
        self, topic: str, sent: Sequence[Sent], shown: list[dict[str, Any]], *, is_delayed: bool
    ) -> None:
        target, body = f"/topics/{topic}/messages", {"messages": shown}
        headers, began = {"idempotency-key": f"{self.name}.{self._requests}"}, trio.current_time()
        open_ones, delayed = dict(enumerate(sent)), dict[bytes, tuple[int, int]]()
        while open_ones and trio.current_time() < began + REPEAT_SECONDS_MAX:
            try:
                answer = await self.line.once("POST", target, body, headers)
            except LineLost:
                self.count("http publishes repeated")
                await trio.sleep(0.2)
                continue
            told = answer.json()
            if "results" in told:
                _check_status(answer.status, told["results"])
                for place, result in enumerate(told["results"]):
                    if place in open_ones and self._is_decided(topic, open_ones[place], result, is_delayed):
                        each = open_ones.pop(place)
                        if is_delayed and "offset" in result:
                            delayed[each.value] = result["partition"], result["offset"]
            elif answer.status < 500:
                raise Violation(f"G14: a sound request was refused: {answer.body!r}")
            await trio.sleep(0.2 if open_ones else 0.0)
        for each in open_ones.values():
            self.history.give_up(each)
        if is_delayed:
            self._busy_until = trio.current_time() + max(DELAYS) + FIRED_SECONDS_MAX
            await self._cancel_some(topic, delayed)

    async def _cancel_some(self, topic: str, delayed: dict[bytes, tuple[int, int]]) -> None:
        """A cancel whose answer is lost may have been made or not."""
        for value, (partition, offset) in delayed.items():
            if self.random.random() < 0.4:
                with suppress(LineLost):
                    answer = await self.line.once("DELETE", f"/topics/{topic}/delayed/{partition}/{offset}")
                    if answer.status == 200 and answer.json()["cancelled"]:
                        self.history.cancelled.add(value)
                        self.count("http cancelled")

    def _is_decided(self, topic: str, sent: Sent, result: dict[str, Any], is_delayed: bool) -> bool:
        code = result.get("code")
        if code == "too_large":
            self.history.refuse(sent)
            return True
        if code is not None:
            if not (result["retryable"] or code == "delivery_unknown"):
                raise Violation(f"G14: {sent} is sound and was refused with {result}")
            return False
        self.count("http confirmed")
        if is_delayed:  # it lies elsewhere once it has fired
            self.history.give_up(sent)
        else:
            published = goqueue.Published(topic, result["partition"], result["offset"])
            self.history.confirm(sent, published)
        return True

    def count(self, what: str, more: int = 1) -> None:
        self.site.tally[what] = self.site.tally.get(what, 0) + more


def _check_status(status: int, results: Sequence[dict[str, Any]]) -> None:
    """§13: 200 when all were published, 207 when some were, else that of the worst."""
    refused = sum("code" in each for each in results)
    is_right = status == 200 if not refused else status == 207 if refused < len(results) else status >= 400
    if not is_right:
        raise Violation(f"§13: {status}, and {refused} of {len(results)} were refused: {results}")
