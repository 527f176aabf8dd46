"""`goqueue serve`: the broker."""

import json
import signal
import sys
from random import SystemRandom

import click
import trio

from goqueue.actors.serving import Ports, serving
from goqueue.environment import Environment, SystemClock, TcpNetwork
from goqueue.errors import GoQueueError
from goqueue.net.origin import Address
from goqueue.storage.disk import RealDisk

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class AddressType(click.ParamType[Address]):
    name = "HOST:PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        if isinstance(value, Address):
            return value
        host, _, port = str(value).rpartition(":")
        host = host.strip("[]")
        if not port.isdecimal() or int(port) > 65_535 or not host:
            self.fail(f"{value!r} is not an address like 127.0.0.1:7710", param, ctx)
        if host not in LOOPBACK:
            self.fail(f"{host} is beyond loopback, which needs authentication; listen on 127.0.0.1", param, ctx)
        return Address(host, int(port))


@click.command()
@click.option("--data", default="goqueue-data", show_default=True, help="The data directory.")
@click.option("--listen", type=AddressType(), default="127.0.0.1:7710", show_default=True, help="For websockets.")
@click.option("--http", type=AddressType(), default="127.0.0.1:7711", show_default=True, help="For HTTP.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def serve(data: str, listen: Address, http: Address, output: str) -> None:
    """Run a broker until SIGTERM or SIGINT. Port 0 picks a free one."""
    environment = Environment(RealDisk(), TcpNetwork(), SystemClock(), SystemRandom())
    try:
        trio.run(_serve, environment, data, listen, http, output)
    except GoQueueError as error:
        raise click.ClickException(error.message) from error
    except OSError as error:
        raise click.ClickException(f"{error}; choose another port, or stop who has it") from error


async def _serve(environment: Environment, data: str, listen: Address, http: Address, output: str) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with serving(environment, data, listen=listen, http=http) as ports:
            _announce(ports, output)
            async for _ in signals:
                break


def _announce(ports: Ports, output: str) -> None:
    """One line, and nothing else on stdout, ever."""
    websocket = f"ws://{ports.websocket.host}:{ports.websocket.port}"
    address = f"http://{ports.http.host}:{ports.http.port}"
    if output == "json":
        line = json.dumps({"websocket": websocket, "http": address})
    else:
        line = f"goqueue listens on {websocket} and {address}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
