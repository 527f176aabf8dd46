"""The end that listens, says welcome and answers."""

from typing import Any

from goqueue.errors import GoQueueError, ProtocolError
from goqueue.net.session.events import Event, HelloReceived, Refused, RequestReceived
from goqueue.net.session.machine import HIGHEST_VERSION, LOWEST_VERSION, Session, SessionState, Step
from goqueue.net.wire.codec import Frame, Opening, encode, read_body
from goqueue.net.wire.errors import GoingAway, TooManyRequests, UnsupportedVersion, WrongCluster
from goqueue.net.wire.kinds import ANSWERS, Answer
from goqueue.net.wire.limits import Limits
from goqueue.net.wire.messages import Error, GoAway, Hello, Welcome
from goqueue.net.wire.parts import Room, message_too_large


class ServerSession(Session):
    def __init__(
        self,
        cluster: bytes,
        node: str,
        features: tuple[str, ...] = (),
        limits: Limits | None = None,
        room: Room | None = None,
    ) -> None:
        super().__init__(limits, room)
        self._cluster, self._node, self._features = cluster, node, features
        self._version = HIGHEST_VERSION

    def welcome(self) -> None:
        """Answer the hello, once its credentials were found good."""
        self._step(Step.WELCOME)
        limits = self.limits
        self._send(
            Welcome(
                self._version,
                self._features,
                self._cluster,
                self._node,
                limits.frame_size_max,
                limits.message_size_max,
            )
        )

    def answer(
        self, correlation: int, answer: Answer, throttle_ms: int = 0, *, is_lone: bool = False
    ) -> bytes | None:
        """Answer a request under way. Nothing happens when the session was closed meanwhile.

        `is_lone`: no frame waits, and the caller sends this one now, if it is returned.
        """
        if self.state is SessionState.CLOSED:
            return None
        assert type(answer) is ANSWERS[self._under_way[correlation]], "each request has its kind of answer"
        message = encode(answer, correlation, throttle_ms)
        if len(message) > self.limits.message_size_max:
            self.refuse(correlation, message_too_large(len(message), self.limits.message_size_max), throttle_ms)
            return None
        del self._under_way[correlation]
        if is_lone and len(message) <= self._outbox.frame_size_max:
            return message
        self._outbox.put(correlation, message)
        return None

    def refuse(self, correlation: int, error: GoQueueError, throttle_ms: int = 0) -> None:
        """Answer a request under way with an error."""
        if self.state is SessionState.CLOSED:
            return
        del self._under_way[correlation]
        self._send_error(error, correlation, throttle_ms)

    def go_away(self, reason: str, retry_after_ms: int = 0) -> None:
        """Take no more requests. Answer those under way, and close when `is_drained`."""
        self._step(Step.GO_AWAY)
        self._send(GoAway(reason, retry_after_ms))

    def _take_greeting(self, frame: Frame) -> Event:
        body = frame.body
        if isinstance(body, Error):
            return self._closed_by(body)
        if self.state is not SessionState.NEW or not isinstance(body, Hello):
            raise ProtocolError(f"{type(body).__name__} came; say hello first, once, and wait for the welcome")
        if body.expected_cluster not in (None, self._cluster):
            return self.close(self._wrong_cluster(body))
        self._version = _common_version(body.protocol_version)
        self._step(Step.HELLO)
        return HelloReceived(body, self._version)

    def _wrong_cluster(self, hello: Hello) -> WrongCluster:
        assert hello.expected_cluster is not None
        return WrongCluster(
            f"this is cluster {self._cluster.hex()}, not {hello.expected_cluster.hex()}; check the address",
            cluster=self._cluster,
        )

    def _take_notice(self, frame: Frame) -> Event:
        if isinstance(frame.body, Error):
            return self._closed_by(frame.body)
        raise ProtocolError(f"{type(frame.body).__name__} came under id 0; requests have ids from 1")

    def _take_message(self, opening: Opening) -> Event:
        correlation = opening.correlation
        if correlation in self._under_way or correlation in self._assembly:
            raise ProtocolError(f"a request came under id {correlation}, which is still in use")
        try:
            self._check_room()
            request: Any = read_body(opening, self.limits.items_max).body
            if type(request) not in ANSWERS:
                raise ProtocolError(f"{type(request).__name__} is no request")
        except (ProtocolError, TooManyRequests, GoingAway) as error:
            return self._turn_down(correlation, error)
        self._under_way[correlation] = type(request)
        return RequestReceived(correlation, request)

    def _check_room(self) -> None:
        if self.state is SessionState.LEAVING:
            raise GoingAway("this broker is going away; ask again on a new connection")
        if len(self._under_way) >= self.limits.requests_max:
            raise TooManyRequests(f"{self.limits.requests_max} requests are under way; wait for an answer")

    def _take_part_of(self, correlation: int) -> Event | None:
        if correlation in self._under_way:
            raise ProtocolError(f"a part came under id {correlation}, whose request is whole and under way")
        return None

    def _turn_down(self, correlation: int, error: GoQueueError) -> Event:
        self._send_error(error, correlation)
        return Refused(correlation, error)


def _common_version(highest_of_client: int) -> int:
    if highest_of_client < LOWEST_VERSION:
        raise UnsupportedVersion(
            f"the client speaks version {highest_of_client} of the protocol at most, this broker "
            f"{LOWEST_VERSION} to {HIGHEST_VERSION}; use a newer client",
            lowest=LOWEST_VERSION,
            highest=HIGHEST_VERSION,
        )
    return min(highest_of_client, HIGHEST_VERSION)
