"""A way to the broker that can be cut at the worst moment: before a request arrives, or before its answer does."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class CuttingProxy:
    """Cuts the newest connection, once for each time that it is told to."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("ws://").partition(":")
        self._broker = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"ws://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.lose_request = self.lose_answer = False
        self.hold_answers = False
        self.held = 0

    def run(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._broker)
                for each in (client, broker):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pairs.append((client, broker))
                for source, target in ((client, broker), (broker, client)):
                    threading.Thread(
                        target=self._carry, args=(source, target, source is client), daemon=True
                    ).start()

    def _carry(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if self._is_newest(source) and self._loses(is_request):
                    break
                target.sendall(data)
        self._cut(source, target)

    def _is_newest(self, source: socket.socket) -> bool:
        return source in self._pairs[-1]

    def _loses(self, is_request: bool) -> bool:
        if is_request and self.lose_request:
            self.lose_request = False
            return True
        if not is_request and self.hold_answers:
            self.held += 1
            return True
        if not is_request and self.lose_answer:
            self.lose_answer = False
            return True
        return False

    def _cut(self, *ends: socket.socket) -> None:
        if self.held:
            return  # the client hears nothing
        for each in ends:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.held = 0
        self._listener.close()
        for pair in self._pairs:
            self._cut(*pair)


@contextmanager
def cutting_proxy(address: str) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(address)
    threading.Thread(target=proxy.run, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()
