"""The end that connects, says hello and asks."""

from dataclasses import replace
from typing import Any

from goqueue.errors import Closed, GoQueueError, ProtocolError
from goqueue.net.session.events import AnswerReceived, Event, GoAwayReceived, Refused, RequestFailed, Welcomed
from goqueue.net.session.machine import HIGHEST_VERSION, LOWEST_VERSION, Session, SessionState, Step
from goqueue.net.wire.codec import CORRELATION_MAX, Frame, Opening, read_body
from goqueue.net.wire.errors import GoingAway, TooManyRequests, UnsupportedVersion
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.kinds import ANSWERS, Request
from goqueue.net.wire.messages import Error, GoAway, Hello, Welcome


class ClientSession(Session):
    _last_correlation = 0

    def hello(self, hello: Hello) -> None:
        """Send it once, first. Requests may follow when the welcome has come."""
        self._step(Step.HELLO)
        self._send(hello)

    def request(self, request: Request) -> int:
        """Send a request. Returns the correlation id of its answer. A call that raises has changed nothing."""
        return self.ask(request)[0]

    def ask(self, request: Request, *, is_lone: bool = False) -> tuple[int, bytes | None]:
        """As `request`. `is_lone`: no frame waits, and the caller sends the one that is returned, if it is."""
        self._check_may_ask()
        correlation = self._next_correlation()
        frame = self._send(request, correlation, is_lone=is_lone)
        self._last_correlation = correlation
        self._under_way[correlation] = ANSWERS[type(request)]
        return correlation, frame

    def _check_may_ask(self) -> None:
        if self.state is SessionState.CLOSED:
            raise Closed("the session was closed")
        if self.state is SessionState.LEAVING:
            raise GoingAway("the broker is going away; ask again on a new connection")
        if self.state is not SessionState.OPEN:
            raise ProtocolError("the broker has not said welcome yet")
        if len(self._under_way) >= self.limits.requests_max:
            raise TooManyRequests(f"{len(self._under_way)} requests are under way; wait for an answer")

    def _next_correlation(self) -> int:
        """The next id that is not in use; after the last one they begin again."""
        correlation = self._last_correlation % CORRELATION_MAX + 1
        while correlation in self._under_way:
            correlation = correlation % CORRELATION_MAX + 1
        return correlation

    def _take_greeting(self, frame: Frame) -> Event:
        body = frame.body
        if isinstance(body, Error):
            return self._closed_by(body)
        if self.state is not SessionState.GREETING or not isinstance(body, Welcome):
            raise ProtocolError(f"{type(body).__name__} came before welcome")
        self._check_welcome(body)
        self._adopt(body)
        self._step(Step.WELCOME)
        return Welcomed(body)

    def _check_welcome(self, welcome: Welcome) -> None:
        if not LOWEST_VERSION <= welcome.protocol_version <= HIGHEST_VERSION:
            raise UnsupportedVersion(
                f"the broker speaks version {welcome.protocol_version} of the protocol, this client "
                f"{LOWEST_VERSION} to {HIGHEST_VERSION}; use a goqueue of the broker's age",
                lowest=LOWEST_VERSION,
                highest=HIGHEST_VERSION,
            )
        if not self.limits.hello_size_max <= welcome.frame_size_max <= welcome.message_size_max:
            raise ProtocolError("the sizes in the welcome are too small to be true")

    def _adopt(self, welcome: Welcome) -> None:
        """Send nothing that the broker would refuse for its size; this end's own limits stay."""
        self._outbox.frame_size_max = min(self.limits.frame_size_max, welcome.frame_size_max)
        self.limits = replace(
            self.limits, message_size_max=min(self.limits.message_size_max, welcome.message_size_max)
        )

    def _take_notice(self, frame: Frame) -> Event:
        body = frame.body
        if isinstance(body, GoAway):
            self._step(Step.GO_AWAY)
            return GoAwayReceived(body.reason, body.retry_after_ms)
        if isinstance(body, Error):
            return self._closed_by(body)
        raise ProtocolError(f"{type(body).__name__} came without a correlation id")

    def _take_message(self, opening: Opening) -> Event:
        correlation = opening.correlation
        if correlation not in self._under_way:
            return Refused(correlation, _nobody_asked(correlation))
        try:
            frame = read_body(opening)
        except ProtocolError as error:
            return self._turn_down(correlation, error)
        return self._settle(frame)

    def _settle(self, frame: Frame) -> Event:
        expected = self._under_way.pop(frame.correlation)
        self._assembly.drop(frame.correlation)
        if isinstance(frame.body, Error):
            return RequestFailed(frame.correlation, error_of(frame.body), frame.throttle_ms)
        if type(frame.body) is not expected:
            wrong = ProtocolError(f"{type(frame.body).__name__} came where {expected.__name__} was due")
            return RequestFailed(frame.correlation, wrong)
        answer: Any = frame.body  # for every answer: a cast is a call
        return AnswerReceived(frame.correlation, answer, frame.throttle_ms)

    def _take_part_of(self, correlation: int) -> Event | None:
        return None if correlation in self._under_way else Refused(correlation, _nobody_asked(correlation))

    def _turn_down(self, correlation: int, error: GoQueueError) -> Event:
        """The request fails, since its answer cannot be read."""
        del self._under_way[correlation]
        return RequestFailed(correlation, error)


def _nobody_asked(correlation: int) -> ProtocolError:
    return ProtocolError(f"an answer came under id {correlation}, under which nothing is asked")
