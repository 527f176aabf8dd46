"""A fetch that is asked for before it is wanted, so that the broker is at it while the program works."""

from goqueue.client.link.caller import Caller
from goqueue.client.link.link import Pending
from goqueue.errors import GoQueueError
from goqueue.net.wire.messages import Fetch, Fetched


class AskedAhead:
    def __init__(self, client: Caller) -> None:
        self._client = client
        self._asked: tuple[Fetch, Pending] | None = None

    def ask(self, request: Fetch) -> None:
        """It leaves at once, or not at all."""
        link = self._client.link
        pending = None if link is None else link.ask_ahead(request)
        self._asked = None if pending is None else (request, pending)

    async def answer(self, request: Fetch) -> Fetched | None:
        """None when it failed, or was not this that was asked for."""
        if self._asked is None or self._asked[0] != request:
            return None
        (_, pending), self._asked = self._asked, None
        try:
            answer = await pending.wait()
        except GoQueueError:
            return None  # ask for it again, by the way that repeats
        assert isinstance(answer, Fetched)
        return answer
