"""`goqueue dlq`: lists dead letters with their state and reason, sends them back, and dismisses them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from goqueue.cli.messages.consume import message_fields
from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import (
    JSON,
    Column,
    counted,
    output_option,
    preview,
    printable,
    readable_second,
    say,
    write_json,
    write_table,
)
from goqueue.client.client import Client
from goqueue.client.letters import (
    STATES,
    WAITING,
    DeadLetter,
    DeadLetterCounts,
    DeadLetterPage,
    Dismissed,
    Redriven,
)
from goqueue.core.names import DEAD_LETTER_SUFFIX
from goqueue.errors import GoQueueError, StorageError

Command = TypeVar("Command", bound=Callable[..., Any])
SHOWN = 20
DOUBTFUL = (
    "the broker lost what it knew of some dead letters: they show as waiting, and may have been sent back or "
    "dismissed before"
)

LIST_COLUMNS = [
    Column("TOPIC", 5),
    Column("DEAD LETTERS", 12, is_number=True),
    Column("WAITING", 7, is_number=True),
    Column("REDRIVEN", 8, is_number=True),
    Column("DISMISSED", 9, is_number=True),
]
LETTER_COLUMNS = [
    Column("PARTITION", 9, is_number=True),
    Column("OFFSET", 6, is_number=True),
    Column("DIED", 4),
    Column("STATE", 5),
    Column("DECIDED", 7),
    Column("GROUP", 5),
    Column("ATTEMPTS", 8, is_number=True),
    Column("REASON", 6),
    Column("VALUE", 5),
]


def which_options(command: Command) -> Command:
    """The options that choose dead letters."""
    for option in (
        click.option("--reason", help="Those whose reason contains this."),
        click.option(
            "--offset",
            "offsets",
            type=click.IntRange(min=0),
            multiple=True,
            metavar="N",
            help="This one; may be repeated.",
        ),
        click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Those in this partition."),
        click.option("--group", help="Those that this group gave up."),
    ):
        command = option(command)
    return command


@click.group()
def dlq() -> None:
    """Look at dead letters, send them back, and dismiss them."""


@dlq.command("list", short_help="Show the topics that have dead letters.")
@broker_options
@output_option
def list_command(broker: BrokerAddress, output: str) -> None:
    """Show the topics that have dead letters.

    How many there are; and how many of them wait, were sent back, and were dismissed. As JSON, one on each line.
    """
    rows = ask(broker, _counts)
    if output == JSON:
        for name, counts in rows:
            write_json(_count_fields(name, counts))
    else:
        write_table(LIST_COLUMNS, [_count_row(name, counts) for name, counts in rows])
    for name, counts in rows:
        if isinstance(counts, GoQueueError):
            click.echo(printable(f"{name} cannot be counted: {counts.message}"), err=True)
        elif counts.is_doubtful:
            click.echo(printable(f"{name}: {DOUBTFUL}"), err=True)


@dlq.command(short_help="Show the dead letters of a topic.")
@click.argument("topic")
@which_options
@click.option("--state", type=click.Choice(STATES), help="Those in this state.")
@click.option("--remaining", is_flag=True, help="Those that wait: the same as --state waiting.")
@click.option(
    "--count", type=click.IntRange(min=1), default=SHOWN, show_default=True, metavar="N", help="So many at most."
)
@broker_options
@output_option
def show(topic: str, remaining: bool, count: int, broker: BrokerAddress, output: str, **which: Any) -> None:
    """Show dead letters, with their state and reason.

    When each came here, what was decided about it, and when. As JSON, one on each line.
    """
    state, offsets = which.pop("state"), which.pop("offsets")
    if remaining and state not in (None, WAITING):
        raise click.UsageError(f"--remaining shows those that wait, and --state {state} others; give one of them")
    wanted = {"offsets": offsets or None, "state": WAITING if remaining else state, "limit": count, **which}
    letters = ask(broker, lambda client: _letters(client, topic, wanted))
    if output == JSON:
        for each in letters:
            write_json(_letter_fields(each))
    else:
        write_table(LETTER_COLUMNS, [_letter_row(each) for each in letters])
        if letters.next is not None:
            click.echo(f"there are more than {count}; --count shows more", err=True)


@dlq.command(short_help="Send dead letters back, each once.")
@click.argument("topic")
@which_options
@click.option("--all", "is_all", is_flag=True, help="All that wait, as without a choice.")
@click.option("--to", metavar="TOPIC", help="To another topic.")
@click.option("--all-groups", is_flag=True, help="For all groups, not only the one that gave them up.")
@click.option("--count", "max_messages", type=click.IntRange(min=1), metavar="N", help="So many at most.")
@click.option("--rate", "per_second", type=click.IntRange(min=1), metavar="N", help="So many a second at most.")
@click.option("--again", is_flag=True, help="Also those that were sent back or dismissed before.")
@click.option("--dry-run", is_flag=True, help="Only say how many it would be.")
@broker_options
@output_option
def redrive(
    *,
    topic: str,
    offsets: Sequence[int],
    is_all: bool,
    dry_run: bool,
    broker: BrokerAddress,
    output: str,
    **wanted: Any,
) -> None:
    """Send waiting dead letters back, each once.

    All of a topic, or those that fit all that is given.
    """
    if is_all and _are_chosen(offsets, wanted):
        raise click.UsageError("--all is without a choice; leave out --all, or what chooses")
    chosen = {"offsets": offsets or None, "dry_run": dry_run, **wanted}
    done = ask(broker, lambda client: client.redrive(topic, **chosen))
    fields = {"topic": topic, "redriven": done.redriven, **_done_fields(done), "dry_run": dry_run}
    what = f"{counted(done.redriven, 'dead letter')} {'would be ' if dry_run else ''}sent back"
    say(output, fields, f"{what}, {_rest(done)}")


@dlq.command()
@click.argument("topic")
@which_options
@click.option("--all", "is_all", is_flag=True, help="All that wait.")
@click.option("--note", default="", help="Why; it is shown with them.")
@click.option("--count", "max_messages", type=click.IntRange(min=1), metavar="N", help="So many at most.")
@click.option("--dry-run", is_flag=True, help="Only say how many it would be.")
@broker_options
@output_option
def dismiss(topic: str, is_all: bool, dry_run: bool, broker: BrokerAddress, output: str, **wanted: Any) -> None:
    """Dismiss waiting dead letters.

    Those that fit all that is given. They stay in the log, and no redrive sends them back without --again.
    """
    offsets = wanted.pop("offsets")
    if _are_chosen(offsets, wanted) == is_all:
        raise click.UsageError("say which: --group, --partition, --offset, --reason, or --all for all that wait")
    chosen = {"offsets": offsets or None, "dry_run": dry_run, **wanted}
    done = ask(broker, lambda client: client.dismiss(topic, **chosen))
    fields = {"topic": topic, "dismissed": done.dismissed, **_done_fields(done), "dry_run": dry_run}
    what = f"{counted(done.dismissed, 'dead letter')} {'would be ' if dry_run else ''}dismissed"
    say(output, fields, f"{what}, {_rest(done)}")


def _are_chosen(offsets: Sequence[int], wanted: Mapping[str, Any]) -> bool:
    return bool(offsets) or any(wanted[name] is not None for name in ("group", "partition", "reason"))


def _done_fields(done: Redriven | Dismissed) -> dict[str, Any]:
    return {
        "remaining": done.remaining,
        "redriven_in_all": done.redriven_in_all,
        "dismissed_in_all": done.dismissed_in_all,
        "why": done.why,
    }


def _rest(done: Redriven | Dismissed) -> str:
    rest = f"{done.remaining} {'remains' if done.remaining == 1 else 'remain'}"
    return f"{rest}: {done.why}" if done.why else rest


async def _counts(client: Client) -> list[tuple[str, DeadLetterCounts | GoQueueError]]:
    """For each topic with dead letters its name and their numbers, or why they cannot be counted."""
    letters = sorted(each.name for each in await client.topics() if each.name.endswith(DEAD_LETTER_SUFFIX))
    names = [name.removesuffix(DEAD_LETTER_SUFFIX) for name in letters]
    return [(name, await _count(client, name)) for name in names if not name.endswith(DEAD_LETTER_SUFFIX)]


async def _count(client: Client, name: str) -> DeadLetterCounts | GoQueueError:
    try:
        return await client.count_dead_letters(name)
    except StorageError as error:  # of one topic; others are counted
        return error


def _count_fields(name: str, counts: DeadLetterCounts | GoQueueError) -> dict[str, Any]:
    if isinstance(counts, GoQueueError):
        return {"topic": name, "error": {"code": counts.code, "message": counts.message}}
    return {
        "topic": name,
        "dead_letters": counts.total,
        "remaining": counts.waiting,
        "redriven": counts.redriven,
        "dismissed": counts.dismissed,
        "redriven_at": counts.redriven_at,
        "dismissed_at": counts.dismissed_at,
        "is_doubtful": counts.is_doubtful,
    }


def _count_row(name: str, counts: DeadLetterCounts | GoQueueError) -> list[str]:
    if isinstance(counts, GoQueueError):
        return [printable(name), *["?"] * 4]
    numbers = (counts.total, counts.waiting, counts.redriven, counts.dismissed)
    return [printable(name), *map(str, numbers)]


async def _letters(client: Client, topic: str, wanted: dict[str, Any]) -> DeadLetterPage:
    return await client.dead_letters(topic, **wanted)


def _letter_fields(letter: DeadLetter) -> dict[str, Any]:
    return {
        **message_fields(letter.message),
        "state": letter.state,
        "died_at": letter.died_at,
        "decided_at": letter.decided_at,
        "sent_to": letter.sent_to,
        "for_all_groups": letter.for_all_groups,
        "note": letter.note,
        "group": letter.group,
        "attempts": letter.attempts,
        "reason": letter.reason,
        "first_delivery": letter.first_delivery,
        "last_delivery": letter.last_delivery,
        "origin_partition": letter.origin_partition,
        "origin_offset": letter.origin_offset,
    }


def _letter_row(letter: DeadLetter) -> list[str]:
    return [
        str(letter.partition),
        str(letter.offset),
        readable_second(letter.died_at),
        _state(letter),
        "" if letter.decided_at is None else readable_second(letter.decided_at),
        printable(letter.group or ""),
        str(letter.attempts),
        printable(letter.reason),
        preview(letter.message.value or b""),
    ]


def _state(letter: DeadLetter) -> str:
    """With what says more than the column: another topic than its own, or a note."""
    if letter.sent_to not in (None, letter.topic):
        return printable(f"{letter.state} to {letter.sent_to}")
    return preview(f"{letter.state}: {letter.note}".encode()) if letter.note else letter.state
