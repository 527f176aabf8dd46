"""The architecture, read from the imports: which layer and room may use which, and what may reach the system.

The layers and the graph of rooms are written down in `tests/rooms.py`. Lists of exceptions may only shrink: an
entry that is no longer needed fails the test, too.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.rooms import (
    LAYERS,
    PACKAGE,
    PAGE,
    ROOMS,
    USES_BESIDE,
    allowed,
    imports_of,
    page_with_rooms,
    room_of,
    rooms_as_drawn,
    rooms_imported_by,
    sentence_of,
)

SURFACE = {"__init__", "__main__"}
NOT_IN_CORE = {"trio", "os", "time", "random", "logging", "threading", "asyncio", "socket", "pathlib", "datetime"}
REACHES_THE_SYSTEM = {
    "ctypes",
    "fcntl",
    "os",
    "pathlib",
    "platform",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
}
# Into Trio's thread comes only who starts it, who knows of forks, and who waits for it outside of any event loop.
THREADS = {"portal/thread.py", "portal/waiting.py"}
MAY_REACH_THE_SYSTEM = {
    "storage/disk/disk.py",
    "storage/disk/kernelsync.py",
    "storage/disk/sparedescriptors.py",
    "storage/disk/threads.py",
    "environment.py",
    "tcp.py",
    *THREADS,
    "client/working/signals.py",  # knows of forks: their signals are their own
    "spark/checks.py",  # asks for Java, and names the Python of Spark's workers
}

SHOWN_TO_OTHER_ROOMS = {"requests", "board"}
"""Modules of a room of actors that every room above it may import: its messages, and what it shows without one."""
STARTED_BY_OTHER_ROOMS = {
    "Broker",
    "DeadLetterService",
    "DelayedMessages",
    "GroupDelivery",
    "GroupStreams",
    "Groups",
    "Janitor",
    "MetadataOwner",
    "Partition",
    "PartitionDelays",
    "Process",
    "Timers",
    "Topics",
    "UnavailablePartition",
    "running_broker",
}
"""Classes that the tree starts, or that an actor owns as a part. Others of their modules go with them."""

INHERITED_ACROSS_ROOMS = {
    # Messages that decode themselves: a delivered one is a message with a receipt.
    ("client/consuming", "DecodedBatch"),
    ("client/consuming", "FlaggedMessage"),
    ("client/consuming", "Message"),
    ("client/consuming", "Slice"),
    ("blocking", "FlaggedMessage"),
    ("blocking", "LeasedMessage"),
    ("blocking", "WithBody"),
    # A client is a connection; both kinds of consumers share the life of one.
    ("client", "Connected"),
    ("client/streaming", "Consumer"),
    ("client/streaming", "DeliveredSlice"),
    ("client/streaming", "Membership"),
    ("client/streaming", "ReceivedDelivery"),
    # One worker in three surfaces, and commands in files of their own.
    ("aio", "AnyWorker"),
    ("blocking", "AnyWorker"),
    ("cli", "CommandsInFiles"),
    ("cli", "Program"),
    ("cli/spark", "CommandsInFiles"),
    # What a route's query, body and answer have in common.
    ("http/routes", "Body"),
    ("http/routes", "Model"),
    ("http/routes/registry", "Model"),
    # A scanner that reports its progress.
    ("storage/verification", "Scanner"),
}
FOR_ALL_TO_INHERIT = {"Actor", "Request", "News"}

FRIENDS = {
    "blocking/inside.py",  # what goqueue's own programs ask of a client
    "cli/spark/session.py",  # Spark's own
    "net/wire/quick.py",  # what a NamedTuple says of its defaults
    "net/wire/strict.py",
    "spark/checks.py",
    "spark/files.py",
    "spark/ingest/claims.py",
    "spark/ingest/job.py",
    "spark/ingest/rows.py",
}
"""Files that use a private attribute of something that is defined elsewhere."""

FOLDER_FILES_MAX = 20
SHARED_PREFIX_LENGTH, SHARED_PREFIX_MAX = 5, 4
LOOK_AGAIN_ABOVE = 450
LONG_FILES = {"client/client.py", "errors.py", "storage/log/growing.py"}
"""Files of more lines that are one idea all the same: nobody halves a class for its length."""

SAME_CLASS_NAMES = {
    # A request of the wire and the request to the actor that serves it.
    "AddPartitions",
    "AlterTopic",
    "CancelDelayed",
    "CountDelayed",
    "CreateTopic",
    "DeleteBefore",
    "DeleteTopic",
    "Fetch",
    "FindDelayed",
    "ListDelayed",
    "MoveDelayed",
    "OffsetAtTime",
    "Produce",
    "Produced",
    "RestorePartition",
    "SkipDamaged",
    "TakeSnapshot",
    # What makes schemas incompatible, and what is wrong with files.
    "Finding",
    # The three surfaces.
    "Client",
    "Connecting",
    "Consumer",
    "DeliveredMessage",
    "FlaggedDelivered",
    "Producer",
    "Reader",
    "TypedProducer",
    "Worker",
    # Public views, the answers that they are made from, and the actors behind them.
    "DamagedSkipped",
    "Group",
    "GroupPartition",
    "Groups",
    "Membership",
    "Partition",
    "Redriven",
    "DeadLetter",
    "Dismissed",
    "ResetPartition",
    "SchemaFinding",
    "Topics",
}
SAME_CLASS_NAMES_MAX = 40

FILES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = sorted({path.parent for path in FILES})


def named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


# Layers


def layer_of(module: str) -> int | None:
    package, _, rest = module.partition(".")
    name = rest.partition(".")[0]
    return LAYERS[name] if package == "goqueue" and name else None


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_module_imports_only_its_own_layer_or_a_lower_one(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own in SURFACE:
        return
    for module, _ in imports_of(path):
        layer = layer_of(module)
        assert layer is None or layer <= LAYERS[own], f"{named(path)} must not import {module}"
        beside = layer == LAYERS[own] and LAYERS[own] in (2, 3, 4)
        permitted = {own} | USES_BESIDE.get(own, set())
        assert not beside or module.split(".")[1] in permitted, f"{named(path)} must not import {module} beside it"


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").rglob("*.py")), ids=named)
def test_core_is_pure(path: Path) -> None:
    for module, _ in imports_of(path):
        assert module.partition(".")[0] not in NOT_IN_CORE, f"{named(path)} must not import {module}"
        assert module != "goqueue.environment", f"{named(path)} must not see the machine"
    for node in ast.walk(tree_of(path)):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_only_the_disk_the_environment_and_the_command_line_reach_the_system(path: Path) -> None:
    if named(path) in MAY_REACH_THE_SYSTEM or path.relative_to(PACKAGE).parts[0] == "cli":
        return
    for module, _ in imports_of(path):
        assert module.partition(".")[0] not in REACHES_THE_SYSTEM, f"{named(path)} must not import {module}"


# Rooms


def test_the_graph_of_rooms_has_no_cycle_and_knows_every_room() -> None:
    standing = set[str]()
    for room in ROOMS:  # each stands on rooms that were named before
        assert allowed(room) <= standing, f"{room} uses {allowed(room) - standing}, which stand above it"
        standing.add(room)
    layers = {room.split("/")[0] for room in ROOMS}
    there = {room_of(path) for path in FILES if path.stem not in SURFACE and room_of(path).split("/")[0] in layers}
    assert there == set(ROOMS)


@pytest.mark.parametrize("path", [path for path in FILES if room_of(path) in ROOMS], ids=named)
def test_a_room_imports_only_the_rooms_below_it(path: Path) -> None:
    own = room_of(path)
    if path.stem in SURFACE:
        return
    layer = own.split("/")[0]
    used = {room for room in rooms_imported_by(path) if room.split("/")[0] == layer and room != own}
    assert used <= allowed(own), f"{named(path)} must not import from {sorted(used - allowed(own))}"


def test_every_use_of_a_room_that_is_written_down_exists() -> None:
    used = defaultdict[str, set[str]](set)
    for path in FILES:
        if path.stem not in SURFACE:
            used[room_of(path)] |= set(rooms_imported_by(path))
    assert {room: sorted(allowed(room) - used[room]) for room in ROOMS} == {room: [] for room in ROOMS}


def test_every_room_opens_with_a_sentence() -> None:
    assert all(sentence_of(room).endswith(".") for room in ROOMS)


def test_the_page_shows_the_rooms() -> None:
    page = PAGE.read_text()
    assert rooms_as_drawn() in page
    assert page == page_with_rooms(page), "run: python -m tests.rooms"


def test_the_walks_of_the_page_name_files_that_exist() -> None:
    layers = "|".join(dict.fromkeys(room.split("/", maxsplit=1)[0] for room in ROOMS))
    paths = re.findall(rf"`((?:{layers})/[a-z/]+)`", PAGE.read_text())
    missing = [path for path in paths if not (PACKAGE / f"{path}.py").exists() and not (PACKAGE / path).is_dir()]
    assert len(paths) > 100
    assert not missing


def actor_imports(path: Path) -> Iterator[tuple[str, str, set[str]]]:
    """Of a module in actors: the room, the module and the names of each import from another room of actors."""
    for module, names in imports_of(path):
        if module.startswith("goqueue.actors."):
            *above, last = module.split(".")[1:]
            room = "/".join(above)
            if room != room_of(path) and "/".join([*above, last]) != room_of(path):
                yield room, last, set(names)


@pytest.mark.parametrize("path", sorted((PACKAGE / "actors").rglob("*.py")), ids=named)
def test_rooms_of_actors_know_each_other_by_their_messages(path: Path) -> None:
    own = room_of(path)
    for module, _ in imports_of(path):
        if own != "actors/front":
            assert not module.startswith("goqueue.net"), f"{named(path)}: only the front speaks the wire"
        if own == "actors/runtime" and module.startswith("goqueue"):
            expected = ("goqueue.actors.runtime", "goqueue.errors", "goqueue.nursery")
            assert module.startswith(expected), f"{named(path)} must not import {module}"
    for room, module, names in actor_imports(path):
        is_open = room in ("actors/runtime", "actors/statistics") or module in SHOWN_TO_OTHER_ROOMS
        is_start = names & STARTED_BY_OTHER_ROOMS or (own == "actors/topics" and room == "actors/partition")
        is_tower = any(room_of(path) == of and name in names for of, name in INHERITED_ACROSS_ROOMS)
        assert is_open or is_start or is_tower or own == "actors/node", f"{named(path)}: {room}/{module}: {names}"


def inherited_across_rooms() -> Iterator[tuple[str, str]]:
    for path in FILES:
        taken = {name: module for module, names in imports_of(path) for name in names}
        for node in ast.walk(tree_of(path)):
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                name = base.value if isinstance(base, ast.Subscript) else base
                if isinstance(name, ast.Name) and taken.get(name.id, "").startswith("goqueue."):
                    room = "/".join(taken[name.id].split(".")[1:-1])
                    if room and room != room_of(path) and not taken[name.id].endswith("errors"):
                        yield room_of(path), name.id


def test_a_class_inherits_from_its_own_room() -> None:
    found = {(room, name) for room, name in inherited_across_rooms() if name not in FOR_ALL_TO_INHERIT}
    assert found == INHERITED_ACROSS_ROOMS


def private_names_of(tree: ast.Module) -> set[str]:
    """What the classes of a module call private themselves."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("self", "cls")
        ):
            names.add(node.attr)
    return names


def foreign_private_names(path: Path) -> set[str]:
    own = private_names_of(tree_of(path))
    return {
        node.attr
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr) and node.attr not in own
    } - {"_make", "_replace", "_asdict", "_fields"}


def test_private_names_stay_private() -> None:
    assert {named(path) for path in FILES if foreign_private_names(path)} == FRIENDS


# Folders, files and names


@pytest.mark.parametrize("folder", FOLDERS, ids=named)
def test_a_folder_is_a_room_of_at_most_20_files_without_a_prefix_that_should_be_a_folder(folder: Path) -> None:
    names = [path.stem for path in folder.glob("*.py")]
    assert len(names) <= FOLDER_FILES_MAX
    prefixes = Counter(name[:SHARED_PREFIX_LENGTH] for name in names)
    assert max(prefixes.values()) <= SHARED_PREFIX_MAX, prefixes.most_common(1)


def test_a_file_of_more_than_450_lines_is_looked_at_again() -> None:
    found = {named(path) for path in FILES if len(path.read_text().splitlines()) > LOOK_AGAIN_ABOVE}
    assert found == LONG_FILES


def test_public_class_names_are_unique() -> None:
    where = defaultdict[str, list[str]](list)
    for path in FILES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(named(path))
    assert {name for name, paths in where.items() if len(paths) > 1} == SAME_CLASS_NAMES
    assert len(SAME_CLASS_NAMES) <= SAME_CLASS_NAMES_MAX


@pytest.mark.parametrize("path", FILES, ids=named)
def test_only_the_progress_bar_and_the_live_page_draw(path: Path) -> None:
    """rich takes megabytes and a tenth of a second: a broker, and commands without a bar, do without."""
    draws = any(module.partition(".")[0] == "rich" for module, _ in imports_of(path))
    assert not draws or named(path) in ("cli/program/progress.py", "cli/top/screen.py")
