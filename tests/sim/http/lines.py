"""The HTTP client of a simulated machine: a connection that is made anew when it is lost."""

from collections.abc import Mapping
from typing import Any

import h11
import trio

import goqueue
from goqueue.environment import Network
from tests.http.world import Answered, HttpClient
from tests.sim.disk.history import Violation

HOST, PORT = "127.0.0.1", 7711
ANSWER_SECONDS_MAX = 35.0
TRIES_MAX = 3
REST_SECONDS = 0.2
LOST = (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError, OSError)


class LineLost(Exception):
    """Nobody knows whether the request was heard, nor what was answered."""


class HttpLine:
    def __init__(self, network: Network) -> None:
        self._network = network
        self._client: HttpClient | None = None

    async def once(
        self,
        method: str,
        target: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = ANSWER_SECONDS_MAX,
    ) -> Answered:
        """Whoever stops waiting, or is cancelled, closes the connection: an answer that comes later is nobody's."""
        answer: Answered | None = None
        try:
            with trio.move_on_after(seconds):
                client = await self._connected()
                answer = await client.ask(method, target, body, headers)
        except LOST as error:
            raise LineLost from error
        finally:
            if answer is None or answer.headers.get("connection") == "close":
                self.close()
        if answer is None:
            raise LineLost
        self._check(answer)
        return answer

    async def patiently(self, method: str, target: str, body: Any = None) -> Answered:
        """Repeated while nobody answers, or the answer says that it may be."""
        for _ in range(TRIES_MAX):
            try:
                answer = await self.once(method, target, body)
            except LineLost:
                await trio.sleep(REST_SECONDS)
                continue
            if answer.status < 500 and answer.status != 429:
                return answer
            await trio.sleep(REST_SECONDS)
        raise goqueue.Unavailable(f"{method} {target} was not answered")

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.stream.close()  # type: ignore[attr-defined]

    async def _connected(self) -> HttpClient:
        if self._client is None:
            self._client = HttpClient(await self._network.connect(HOST, PORT))
        return self._client

    def _check(self, answer: Answered) -> None:
        """G14: whatever is sound has an answer that says what is wrong with the broker, and never a bug."""
        if answer.status >= 400 and answer.json().get("code") == "internal_error":
            raise Violation(f"G14: {answer.body[:300]!r}")
