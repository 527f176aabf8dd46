"""A member over HTTP, with the calls of a consumer: what a program in another language would do."""

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import trio

import goqueue
from goqueue.client.consuming.delivery import Origin
from goqueue.core.receipts import Receipt
from goqueue.environment import Network
from tests.http.world import Answered
from tests.sim.disk.history import Violation
from tests.sim.groups.plan import GroupSetup
from tests.sim.http.lines import HttpLine
from tests.sim.http.plan import HttpMemberPlan

FULL_SECONDS, REFUSED_SECONDS = 0.5, 0.2
LATE_SECONDS = 30.0
"""An answer to a poll is waited for so long behind its timeout."""


class OfDelivery(NamedTuple):
    origin: Origin


@dataclass(frozen=True, slots=True)
class HttpMessage:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    priority: int
    attempt: int
    receipt: str

    @property
    def delivery(self) -> OfDelivery:
        named = Receipt.parse(self.receipt)
        return OfDelivery(Origin(named.group, named.topic, b"", named.partition, named.nonce))

    @classmethod
    def of(cls, shown: dict[str, Any]) -> "HttpMessage":
        key, value = shown.get("key"), shown.get("value")
        priority = goqueue.Priority[shown["priority"].upper()]
        return cls(
            shown["topic"],
            shown["partition"],
            shown["offset"],
            None if key is None else key.encode(),
            b64decode(shown["value_base64"]) if value is None else value.encode(),
            int(priority),
            shown["attempt"],
            shown["receipt"],
        )


class AssignedPlace(NamedTuple):
    topic: str
    partition: int


@dataclass(slots=True)
class Believed:
    """What the member believes of its membership."""

    member: str = ""
    generation: int = 0
    assignment: tuple[AssignedPlace, ...] = ()

    def take(self, told: dict[str, Any]) -> None:
        self.generation = told["generation"]
        self.assignment = tuple(AssignedPlace(each["topic"], each["partition"]) for each in told["assignment"])


class HttpConsumer:
    def __init__(self, network: Network, plan: HttpMemberPlan, setup: GroupSetup) -> None:
        """Polls, heartbeats and everything else have a connection each."""
        self._polls, self._beats, self._words = (HttpLine(network) for _ in range(3))
        self._plan, self._setup = plan, setup
        self._membership = Believed(plan.member_id or "")
        self.is_member = False
        self.joins = 0

    # Membership

    async def join(self) -> None:
        setup = self._setup
        settings = {
            "shared": setup.is_shared,
            "key_order": setup.keeps_key_order,
            "lanes": setup.lanes,
            "max_deliveries": setup.max_deliveries,
        }
        body: dict[str, Any] = {
            "topics": setup.topics[0] if len(setup.topics) == 1 else list(setup.topics),
            "settings": settings,
            "start": setup.start,
            "session_timeout": self._plan.session,
        }
        if self._membership.member:
            body["member_id"] = self._membership.member
        self.joins += 1
        answer = await self._words.patiently("POST", f"{self._group}/join", body)
        if answer.status != 200:
            raise Violation(f"§5: a sound join was refused: {answer.body!r}")
        told = answer.json()
        self._membership.member = told["member_id"]
        self._membership.take(told)
        self.is_member = True

    async def beat(self) -> None:
        answer = await self._beats.once("POST", f"{self._group}/heartbeat", self._named)
        if answer.status == 404:
            self.is_member = False

    async def leave(self) -> None:
        await self._words.patiently("POST", f"{self._group}/leave", self._named)
        self.is_member = False

    def close(self) -> None:
        for line in (self._polls, self._beats, self._words):
            line.close()

    @property
    def _group(self) -> str:
        return f"/groups/{quote(self._setup.name)}"

    @property
    def _named(self) -> dict[str, Any]:
        return {"member_id": self._membership.member}

    # Messages

    async def receive(self, count: int, timeout: float) -> list[HttpMessage]:
        """`LineLost`: it may have been handed something that it never heard of."""
        query = {**self._named, "limit": count, "timeout": timeout, "visibility": self._plan.visibility}
        if self._plan.names_generation:
            query["generation"] = self._membership.generation
        target = f"{self._group}/poll?{urlencode(query)}"
        answer = await self._polls.once("GET", target, seconds=timeout + LATE_SECONDS)
        if answer.status == 200:
            told = answer.json()
            self._membership.take(told)
            return [HttpMessage.of(each) for each in told["messages"]]
        await self._refused(answer)
        return []

    async def _refused(self, answer: Answered) -> None:
        code = answer.json()["code"]
        if code == "unknown_member":
            self.is_member = False
        elif code == "stale_generation":
            self._membership.take(answer.json()["details"])
        elif code == "in_flight_full":
            await trio.sleep(FULL_SECONDS)
        elif answer.status >= 500 or answer.status == 429:
            await trio.sleep(REFUSED_SECONDS)
        else:
            raise Violation(f"§13: a sound poll was refused: {answer.body!r}")

    async def ack(self, messages: Sequence[HttpMessage]) -> None:
        await self._settle("ack", messages)

    async def nack(self, messages: Sequence[HttpMessage], delay: float | None = None, reason: str = "") -> None:
        await self._settle("nack", messages, reason=reason, **({} if delay is None else {"delay": delay}))

    async def reject(self, messages: Sequence[HttpMessage], reason: str = "") -> None:
        await self._settle("reject", messages, reason=reason)

    async def release(self, messages: Sequence[HttpMessage]) -> None:
        await self._settle("release", messages)

    async def extend(self, messages: Sequence[HttpMessage], seconds: float) -> None:
        await self._settle("visibility", messages, seconds=seconds)

    async def _settle(self, how: str, messages: Sequence[HttpMessage], **more: Any) -> None:
        receipts = [message.receipt for message in messages]
        if not receipts:
            return
        answer = await self._words.patiently("POST", f"/messages/{how}", {"receipts": receipts, **more})
        told = answer.json()
        if "settled" not in told:
            raise Violation(f"G6: {how} of {receipts} was refused: {answer.body!r}")
        if told.get("failed"):
            raise goqueue.Unavailable(f"some of {receipts} could not be settled")
        _check_sum(answer.status, told, receipts)
        if told["stale"]:
            raise goqueue.StaleReceipt("some receipts are stale", told["stale"])


def _check_sum(status: int, told: dict[str, Any], receipts: Sequence[str]) -> None:
    """G6: each receipt is settled or stale, and the status says so."""
    expected = 200 if not told["stale"] else 207 if told["settled"] else 409
    if told["settled"] + len(told["stale"]) != len(receipts) or status != expected:
        raise Violation(f"G6: {len(receipts)} receipts, and {status} with {told}")
