"""`goqueue check`: is the broker well? Its exit code is the answer."""

from dataclasses import asdict, dataclass
from enum import IntEnum

import click
import trio

from goqueue.cli.program.asking import BrokerAddress, broker_options, connecting_to, no_answer
from goqueue.cli.program.output import JSON, output_option, printable, write_json
from goqueue.cli.program.running import run
from goqueue.core.health import NOT_READY, HealthReason
from goqueue.errors import GoQueueError

PUBLISH = "publish"
NOT_REACHED, REFUSED = "not_reached", "refused"


class CheckExit(IntEnum):
    """The exit codes, from good to bad."""

    GOOD = 0
    DEGRADED = 1
    NOT_SERVING = 2
    NOT_REACHED = 3


@dataclass(frozen=True, slots=True)
class Checked:
    exit_code: CheckExit
    status: str
    message: str
    degraded: tuple[HealthReason, ...] = ()


@click.command()
@click.option("--for", "purpose", type=click.Choice([PUBLISH]), help="Only good if it takes publishes.")
@broker_options
@output_option
@click.pass_context
def check(context: click.Context, *, purpose: str | None, broker: BrokerAddress, output: str) -> None:
    """Say whether the broker is well.

    The exit code is 0 when it is, 1 when something impairs it, 2 when it does not serve, and 3 when it is not
    reached.
    """
    checked = run(lambda: check_broker(broker, for_publish=purpose == PUBLISH))
    if output == JSON:
        fields = asdict(checked)
        write_json({"exit_code": int(fields.pop("exit_code")), **fields})
    else:
        _write(checked)
    context.exit(checked.exit_code)


async def check_broker(broker: BrokerAddress, *, for_publish: bool) -> Checked:
    connecting = connecting_to(broker)
    try:
        async with connecting as client:
            with trio.move_on_after(broker.timeout_seconds):
                health = await client.health(for_publish=for_publish)
                return _judged(health.status, tuple(health.degraded))
            return Checked(CheckExit.NOT_REACHED, NOT_REACHED, no_answer(broker, client))
    except GoQueueError as error:
        return Checked(CheckExit.NOT_SERVING, REFUSED, error.message)


def _judged(status: str, degraded: tuple[HealthReason, ...]) -> Checked:
    if status in NOT_READY:
        return Checked(CheckExit.NOT_SERVING, status, NOT_READY[status], degraded)
    if degraded:
        return Checked(CheckExit.DEGRADED, status, "the broker serves, and something impairs it", degraded)
    return Checked(CheckExit.GOOD, status, "the broker serves, and nothing impairs it")


def _write(checked: Checked) -> None:
    click.echo(printable(checked.message))
    for reason in checked.degraded:
        click.echo(f"\n{printable(reason.code)}: {printable(reason.message)}")
        click.echo(f"  {printable(reason.cure)}")
