"""The page about actors is run, so that it stays true."""

import re
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

PAGE = Path(__file__).parents[3] / "docs" / "actors.md"


def test_the_examples_on_the_page_run() -> None:
    source = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(source, str(PAGE), "exec"), names)
    for example in ("main", "ask_the_shelf"):
        trio.run(names[example], clock=MockClock(autojump_threshold=0))
