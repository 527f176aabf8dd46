"""What the README shows of the command line is what the commands print."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import goqueue.testing
from goqueue import blocking
from goqueue.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text()
WHY, LETTERS = re.findall(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def broker() -> Iterator[str]:
    """Its group billing has a dead letter, a message that waits for its retry, and two in flight."""
    with goqueue.testing.loopback_broker() as address, blocking.connect(address) as client:
        client.create_topic("orders", partitions=1)
        with client.consumer("orders", group="billing", member_id="worker-1") as consumer:
            client.publish("orders", b'{"order": 41}')
            consumer.receive(timeout=10)[0].reject("card declined")
            with client.consumer("orders.dlq", group="waiting") as letters:
                assert letters.receive(timeout=10)
            with client.producer("orders") as producer:
                producer.send_many([b'{"order": 42}'] * 3)
            messages = consumer.receive(max_messages=3, timeout=10)
            messages[0].nack(delay=40)
            yield address


def printed(broker: str, *command: str) -> str:
    done = CliRunner().invoke(main, [*command, "--url", broker])
    assert done.exit_code == 0, done.output
    return done.output


def without_figures(text: str) -> str:
    return re.sub(r"\d+(\.\d+)?( ms)?", "N", text)


def without_times(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)


def test_the_answer_to_why_is_as_the_readme_shows_it(broker: str) -> None:
    assert without_figures(printed(broker, "why", "billing")) == without_figures(WHY)


def test_dead_letters_look_as_the_readme_shows_them(broker: str) -> None:
    assert without_times(printed(broker, "dlq", "show", "orders")) == without_times(LETTERS)
