"""The time limit of one call that publishes: how long it waits for its confirmation, from its beginning on.

When the time is over, messages that were not sent are taken back: `DeliveryTimeout`, they are not written and never
will be. Of a message that was sent and not answered nobody can say: `DeliveryUnknown`.
"""

from collections.abc import Awaitable

import trio

from goqueue.client.link.arguments import check_seconds_between
from goqueue.client.producing.outcome import Outcome
from goqueue.client.producing.sender import Sender
from goqueue.types import Seconds

PUBLISH_SECONDS = 30.0
"""The time limit of `client.publish`, unless it is given one."""
TIMEOUT_SECONDS_MIN, TIMEOUT_SECONDS_MAX = 0.001, 24 * 3600.0


class TimeLimit:
    def __init__(self, seconds: Seconds) -> None:
        self.seconds = check_seconds_between("timeout", seconds, TIMEOUT_SECONDS_MIN, TIMEOUT_SECONDS_MAX)
        self.ends_at = trio.current_time() + self.seconds

    async def room(self, sender: Sender, made_ready: Awaitable[None]) -> None:
        """Wait until the sender has room. `DeliveryTimeout` when it has none by then."""
        with trio.CancelScope(deadline=self.ends_at):
            await made_ready
            return
        raise sender.expiring.not_sent(self.seconds)

    async def settled(self, sender: Sender, outcome: Outcome) -> None:
        with trio.CancelScope(deadline=self.ends_at):
            await outcome.wait()
        if not outcome.is_settled:
            sender.expiring.withdraw(outcome, self.seconds)
