"""The rooms of the package, written down: which room of a layer may import which others of the same layer.

`tests/test_layers.py` holds the imports to it. docs/architecture.md shows it, with the sentence that opens each
room's `__init__.py`; `python -m tests.rooms` writes that part of the page anew.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import goqueue

PACKAGE = Path(goqueue.__file__).parent
PAGE = PACKAGE.parent / "docs" / "architecture.md"

LAYERS: Mapping[str, int] = {
    "types": 0,
    "errors": 0,
    "config": 0,
    "environment": 0,
    "nursery": 0,
    "tcp": 0,
    "settings": 0,
    "portal": 0,
    "core": 1,
    "storage": 2,
    "net": 2,
    "client": 3,
    "actors": 3,
    "http": 4,
    "testing": 5,
    "blocking": 5,
    "aio": 5,
    "spark": 5,
    "cli": 5,
}
USES_BESIDE: Mapping[str, set[str]] = {"spark": {"blocking"}, "cli": {"spark"}, "testing": {"aio"}}
"""Layers that use one beside them: Spark's tasks use the client without an event loop, commands run Spark, and the
testing kit waits in asyncio as its client does."""

ROOMS: Mapping[str, str] = {
    "core": "",
    "core/records": "",
    "core/waiting": "core",
    "core/receiving": "",
    "core/topics": "core core/records",
    "core/delays": "core core/records",
    "core/log": "core core/records core/topics core/delays",
    "core/sending": "core/records core/log",
    "core/ledger": "core core/log",
    "core/why": "core/ledger",
    "core/slices": "core core/records core/ledger",
    "core/groups": "core core/records core/ledger core/slices core/why",
    "core/metadata": "core/topics core/groups",
    "core/security": "core",
    "core/schemas": "core",
    "core/schemas/reading": "core/schemas",
    "core/schemas/compatibility/nodes": "core/schemas core/schemas/reading",
    "core/schemas/compatibility/comparing": "core/schemas/reading core/schemas/compatibility/nodes",
    "core/schemas/compatibility": (
        "core/schemas core/schemas/compatibility/nodes core/schemas/compatibility/comparing"
    ),
    "core/schemas/validation": "core/records core/topics core/schemas core/schemas/reading",
    "storage": "",
    "storage/disk": "",
    "storage/log": "storage storage/disk",
    "storage/compaction": "storage/log",
    "storage/journals": "storage/log",
    "storage/snapshotlog": "storage storage/log storage/journals",
    "storage/delays": "storage/log",
    "storage/directory": "storage storage/log storage/journals storage/snapshotlog storage/delays",
    "storage/backup": "storage storage/log storage/journals storage/snapshotlog storage/directory",
    "storage/verification": (
        "storage storage/disk storage/log storage/journals storage/snapshotlog storage/delays storage/directory"
    ),
    "net/wire": "",
    "net/session": "net/wire",
    "net/transport": "net/wire",
    "client/link": "",
    "client/reading": "client/link",
    "client/schemas": "client/link",
    "client/producing": "client/link client/reading client/schemas",
    "client/consuming": "client/link client/reading client/schemas",
    "client/streaming": "client/link client/reading client/schemas client/consuming",
    "client": "client/link client/reading client/schemas client/producing client/consuming client/streaming",
    "client/working": "client/link client/schemas client/consuming client",
    "actors/runtime": "",
    "actors/statistics": "actors/runtime",
    "actors/metadata": "actors/runtime",
    "actors/registry": "actors/runtime",
    "actors/delivery": "actors/runtime actors/statistics",
    "actors/delays": "actors/runtime actors/statistics",
    "actors/partition": "actors/runtime actors/statistics actors/delivery actors/delays",
    "actors/topics": "actors/runtime actors/statistics actors/metadata actors/delivery actors/partition",
    "actors/deadletters": "actors/runtime actors/statistics actors/metadata actors/delivery actors/partition "
    "actors/topics",
    "actors/groups": "actors/runtime actors/statistics actors/metadata actors/delivery actors/partition "
    "actors/topics",
    "actors/node": "actors/runtime actors/statistics actors/metadata actors/registry actors/delays actors/topics "
    "actors/deadletters actors/groups",
    "actors/front": "actors/runtime actors/statistics actors/delivery actors/delays actors/partition actors/topics "
    "actors/deadletters actors/groups actors/registry actors/node",
    "http/server": "",
    "http/routing": "http/server",
    "http/messages": "http/server http/routing",
    "http/members": "http/server http/messages",
    "http/metrics": "",
    "http/routes/registry": "http/server http/routing",
    "http/routes": "http/server http/routing http/messages http/members http/metrics",
    "http": "http/server http/routing http/members http/metrics http/routes",
    "cli/program": "",
    "cli/messages": "cli/program",
    "cli/backup": "cli/program",
    "cli/log": "cli/program",
    "cli/bench": "cli/program",
    "cli/spark": "cli/program",
    "cli/top": "cli/program",
    "cli/schema": "cli/program",
    "cli": "cli/program cli/messages cli/backup",
    "spark/json": "",
    "spark": "spark/json",
    "spark/reading": "spark spark/json",
    "spark/sink": "spark",
    "spark/format": "spark spark/reading spark/sink",
    "spark/ingest": "spark spark/json spark/reading spark/format",
    "spark/load": "spark",
}
"""Each room stands below those that import it. The root of a layer is a room too."""

DRAWN_ABOVE = 4
"""Rooms of a layer: fewer are seen from the table."""
BEGIN, END = "<!-- rooms: written by python -m tests.rooms -->", "<!-- end of rooms -->"


def allowed(room: str) -> set[str]:
    return set(ROOMS[room].split())


def room_of(path: Path) -> str:
    return path.parent.relative_to(PACKAGE).as_posix()


def imports_of(path: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Each imported module, with the names that are taken from it. Imports for types alone count too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports name the whole path"
            assert node.module is not None
            yield node.module, [alias.name for alias in node.names]


def rooms_imported_by(path: Path) -> Iterator[str]:
    for module, names in imports_of(path):
        if module == "goqueue" or not module.startswith("goqueue."):
            continue
        target = PACKAGE.joinpath(*module.split(".")[1:])
        if target.with_suffix(".py").exists():
            yield room_of(target)
        else:  # from a room its modules, or what the room itself offers
            yield from (target.relative_to(PACKAGE).as_posix() for _ in names)


def sentence_of(room: str) -> str:
    text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
    assert text, f"{room}/__init__.py opens with a sentence about the room"
    return " ".join(text.split("\n\n")[0].split())


def rooms_as_drawn() -> str:
    """A section for each layer: its rooms in a table, and a drawing where they are more than a few."""
    parts = []
    for layer in dict.fromkeys(room.split("/", 1)[0] for room in ROOMS):
        rooms = [room for room in ROOMS if room.split("/", 1)[0] == layer]
        rows = [f"| `{room}` | {sentence_of(room)} | {_used(room)} |" for room in rooms]
        parts.append("\n".join([f"### {layer}", "", "| room | what is in it | uses |", "|---|---|---|", *rows]))
        if len(rooms) > DRAWN_ABOVE:
            parts.append("\n".join(["```mermaid", "graph BT", *_edges(rooms), "```"]))
    return "\n\n".join(parts)


def _used(room: str) -> str:
    return ", ".join(_short(each) for each in ROOMS[room].split()) or "–"


def _short(room: str) -> str:
    return room.partition("/")[2] or f"{room} root"


def _edges(rooms: Sequence[str]) -> Iterator[str]:
    """From each room to those that it uses, without those that it reaches through another one."""
    reached = {room: allowed(room).union(*(_reach(each) for each in allowed(room))) for room in rooms}
    for room in rooms:
        for used in ROOMS[room].split():
            if not any(used in reached[other] for other in allowed(room)):
                yield f"    {_short(room).replace(' ', '_')} --> {_short(used).replace(' ', '_')}"


def _reach(room: str) -> set[str]:
    return allowed(room).union(*(_reach(each) for each in allowed(room)))


def page_with_rooms(page: str) -> str:
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n\n{rooms_as_drawn()}\n\n{END}", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(page_with_rooms(PAGE.read_text()))
