"""`goqueue why`: why nothing is being delivered."""

import click

from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import JSON, output_option, printable, write_json
from goqueue.client.groups import asking_why
from goqueue.net.wire.groups import Because


@click.command(short_help="Say why nothing is being delivered to a group.")
@click.argument("group")
@click.option("--member", metavar="ID", help="To this member of the group; `goqueue group describe` lists them.")
@broker_options
@output_option
def why(group: str, member: str | None, broker: BrokerAddress, output: str) -> None:
    """Say why nothing is being delivered to a group; as JSON, with the facts."""
    found = ask(broker, lambda client: client.call(asking_why(group, member), Because))
    if output == JSON:
        write_json({"group": group, "member": member, "why": found.why, **found.facts})
    else:
        click.echo(printable(found.why))
