"""`goqueue topic restore-partition`: restarts a partition that was lost."""

from dataclasses import asdict

import click

from goqueue.cli.backup.copying import mounted
from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import JSON, output_option, printable, write_json
from goqueue.cli.program.running import Misuse, run
from goqueue.client.link.topics import RestoredPartition
from goqueue.errors import GoQueueError
from goqueue.storage.backup.source import BackupSource
from goqueue.storage.disk.disk import RealDisk
from goqueue.types import Offset


@click.command("restore-partition", short_help="Restart a lost partition, empty.")
@click.argument("place", metavar="TOPIC/PARTITION")
@click.option("--accept-loss", is_flag=True, help="Do it. Without it nothing is changed.")
@click.option("--backup", metavar="DIR", help="A backup that knows the partition: its end there counts too.")
@broker_options
@output_option
def restore_partition(
    place: str, accept_loss: bool, backup: str | None, broker: BrokerAddress, output: str
) -> None:
    """Restart a lost partition, empty, far behind the highest offset that is known of it.

    Says what is lost and where the partition would restart. With --accept-loss it restarts there: no offset is used
    twice, and groups go on with what is published from then on. A partition that is not lost is left alone.
    """
    topic, number = _taken_apart(place)
    at_least = run(lambda: _end_in_backup(backup, topic, number)) if backup is not None else 0
    found = ask(
        broker,
        lambda client: client.restore_partition(topic, number, accept_loss=accept_loss, at_least=at_least),
    )
    if output == JSON:
        write_json(asdict(found))
        return
    for sentence in _sentences(found):
        click.echo(printable(sentence))


def _taken_apart(place: str) -> tuple[str, int]:
    topic, _, number = place.rpartition("/")
    if not topic or not number.isdecimal() or len(number) > 9:
        raise Misuse(f"{place!r} is no partition like orders/0")
    return topic, int(number)


async def _end_in_backup(backup: str, topic: str, number: int) -> Offset:
    try:
        async with mounted(RealDisk()) as volume:
            manifest = await BackupSource(volume, backup).manifest()
    except GoQueueError as error:
        raise Misuse(printable(error.message)) from None
    ends = [each.end for each in manifest.partitions if (each.topic, each.partition) == (topic, number)]
    if not ends:
        raise Misuse(f"the backup in {printable(backup)} has no partition {printable(topic)}/{number}")
    return ends[0]


def _sentences(found: RestoredPartition) -> list[str]:
    name = f"{found.topic}/{found.partition}"
    if not found.was_lost:
        return [f"{name} is not lost; nothing was changed"]
    known = "no offset of it is known" if found.highest is None else _known(found)
    lost = "its messages are lost, delayed ones too, and so is the progress of groups in it"
    if found.is_restored:
        return [f"{name} was lost: {found.missing}; {lost}", known, f"it restarts at offset {found.start}"]
    return [
        f"{name} is lost: {found.missing}; {lost}",
        known,
        f"it would restart at offset {found.start}; nothing was changed, give --accept-loss to do it",
    ]


def _known(found: RestoredPartition) -> str:
    return f"the highest offset that is known of it is {found.highest}, by {found.named_by}"
