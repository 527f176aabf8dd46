"""The prefetch of a reader: a fetch is sent before it is needed, so that the broker works meanwhile."""

from goqueue.client.link.caller import Caller
from goqueue.client.link.link import Pending
from goqueue.errors import GoQueueError
from goqueue.net.wire.messages import Fetch, Fetched


class AskedAhead:
    def __init__(self, client: Caller) -> None:
        self._client = client
        self._asked: tuple[Fetch, Pending] | None = None

    def ask(self, request: Fetch) -> None:
        """Sent at once, or not at all."""
        link = self._client.link
        pending = None if link is None else link.ask_ahead(request)
        self._asked = None if pending is None else (request, pending)

    async def answer(self, request: Fetch) -> Fetched | None:
        """The answer of the prefetch; None if it failed, or was for another request."""
        if self._asked is None or self._asked[0] != request:
            return None
        (_, pending), self._asked = self._asked, None
        try:
            answer = await pending.wait()
        except GoQueueError:
            return None  # the caller asks again by `call`, which repeats
        assert isinstance(answer, Fetched)
        return answer
