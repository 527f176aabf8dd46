"""Whatever is done before a crash, what is found after it could have been on the platter."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import DiskFull
from goqueue.testing.contents import Operation, Truncate, Write
from goqueue.testing.determinism import run_deterministically
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.file import SimulatedFile
from tests.testing.disks import PATH, durable_file, new_disk, read

seeds = st.integers(0, 2**32)
sizes = st.integers(0, 1_500)
writes = st.builds(
    lambda position, length, fill: Write(position, bytes([fill]) * length),
    sizes,
    st.integers(1, 1_200),
    st.integers(1, 255),
)
sync = st.just("sync")
steps = st.lists(st.one_of(writes, st.builds(Truncate, sizes), sync), max_size=8)
Step: TypeAlias = Operation | str

# Bytes.


async def crash_after(seed: int, steps: Sequence[Step]) -> bytes | None:
    disk = await new_disk(seed)
    file = await durable_file(disk)
    for step in steps:
        if isinstance(step, Write):
            file.write(step.position, [step.data])
        elif isinstance(step, Truncate):
            file.truncate(step.size)
        else:
            await file.sync()
    return await read(disk.crash())


def split_at_last_sync(steps: Sequence[Step]) -> tuple[bytes, list[Operation]]:
    """What was synced, and what was done since."""
    synced, since, image = b"", list[Operation](), bytearray()
    for step in steps:
        if isinstance(step, str):
            synced, since = bytes(image), []
        else:
            step.perform(image)
            since.append(step)
    return synced, since


def possible_bytes(synced: bytes, since: Sequence[Operation], position: int) -> set[int]:
    """What may be read at the position: synced or written there, zero if the file may end before."""
    written = [op for op in since if isinstance(op, Write) and op.position <= position < op.end]
    shortest = min([len(synced), *(op.size for op in since if isinstance(op, Truncate))])
    values = {op.data[position - op.position] for op in written}
    values.update(synced[position : position + 1])
    return values if position < shortest else values | {0}


@given(seeds, steps)
def test_every_byte_after_a_crash_was_synced_or_written_there_or_is_a_hole(seed: int, steps: list[Step]) -> None:
    image = run_deterministically(crash_after, seed, steps, seed=seed).value
    synced, since = split_at_last_sync(steps)
    assert image is not None
    for position, value in enumerate(image):
        assert value in possible_bytes(synced, since, position)


@given(seeds, steps)
def test_a_file_is_never_shorter_or_longer_than_it_may_be(seed: int, steps: list[Step]) -> None:
    image = run_deterministically(crash_after, seed, steps, seed=seed).value
    synced, since = split_at_last_sync(steps)
    ends = [op.end if isinstance(op, Write) else op.size for op in since]
    cuts = [op.size for op in since if isinstance(op, Truncate)]
    assert image is not None
    assert min([len(synced), *cuts]) <= len(image) <= max([len(synced), *ends])


@given(seeds, steps)
def test_what_was_synced_last_is_found_as_it_was(seed: int, steps: list[Step]) -> None:
    image = run_deterministically(crash_after, seed, [*steps, "sync"], seed=seed).value
    assert image == split_at_last_sync([*steps, "sync"])[0]


# Names.

FOLDERS = ("/a", "/b")
places = st.sampled_from([f"{folder}/{name}" for folder in FOLDERS for name in "xyz"])
name_steps = st.lists(
    st.one_of(
        st.tuples(st.just("create"), places),
        st.tuples(st.just("remove"), places),
        st.tuples(st.just("rename"), places, places),
        st.tuples(st.just("sync"), st.sampled_from(FOLDERS)),
    ),
    max_size=14,
)


@dataclass
class NameModel:
    """Files are told apart by their contents, which are always synced."""

    current: dict[str, bytes] = field(default_factory=dict)
    was_at: dict[bytes, set[str]] = field(default_factory=dict)
    """Every place that a file ever had."""
    safe: dict[bytes, set[str]] = field(default_factory=dict)
    """Files that a crash must not take, with the places where each may be found."""
    solid: set[str] = field(default_factory=set)
    """Names that were durable and since then at most replaced."""

    def create(self, place: str) -> bytes:
        file = str(len(self.was_at)).encode()
        self.current[place] = file
        self.was_at[file] = {place}
        return file

    def remove(self, place: str) -> None:
        self.safe.pop(self.current.pop(place), None)
        self.solid.discard(place)

    def rename(self, old: str, new: str) -> None:
        if old == new:
            return
        self.safe.pop(self.current.get(new, b""), None)
        file = self.current[new] = self.current.pop(old)
        self.was_at[file].add(new)
        self.solid.discard(old)
        if file in self.safe:
            self.safe[file].add(new)

    def sync(self, folder: str) -> None:
        for place, file in self.current.items():
            if place.startswith(folder):
                self.safe[file] = {place}
                self.solid.add(place)


async def change_names(disk: SimulatedDisk, model: NameModel, step: tuple[str, ...]) -> None:
    action, place, *target = step
    if action == "sync":
        await disk.sync_directory(place)
        model.sync(place)
    elif action == "create" and place not in model.current:
        file = disk.open(place, create=True)
        file.write(0, [model.create(place)])
        await file.sync()
    elif action == "remove" and place in model.current:
        disk.remove(place)
        model.remove(place)
    elif action == "rename" and place in model.current:
        disk.rename(place, target[0])
        model.rename(place, target[0])


async def files_on(disk: SimulatedDisk) -> dict[str, bytes | None]:
    found = [f"{folder}/{name}" for folder in FOLDERS for name in disk.list(folder)]
    return {place: await read(disk, place) for place in found}


async def names_after(
    seed: int, steps: Sequence[tuple[str, ...]]
) -> tuple[NameModel, dict[str, bytes | None], dict[str, bytes | None]]:
    disk, model = SimulatedDisk(Random(seed)), NameModel()
    for folder in FOLDERS:
        disk.make_directory(folder)
    await disk.sync_directory("/")
    for step in steps:
        await change_names(disk, model, step)
    return model, await files_on(disk.kill()), await files_on(disk.crash())


@given(seeds, name_steps)
def test_files_and_names_survive_as_their_folders_were_synced(seed: int, steps: list[tuple[str, ...]]) -> None:
    model, killed, crashed = run_deterministically(names_after, seed, steps, seed=seed).value
    assert killed == model.current
    assert len(set(crashed.values())) == len(crashed), "a file has two names"
    assert model.solid <= crashed.keys(), "a durable name is missing"
    for place, file in crashed.items():
        assert file is not None
        assert place in model.was_at[file], "a file stands where it never was"
    for file, possible in model.safe.items():
        assert [place for place, found in crashed.items() if found == file and place in possible], "a file is lost"


# Room.


def parts(image: bytes, write: Write) -> list[bytes]:
    """The image with nothing of the write, its first byte, its first two bytes, and so on."""
    found = [image]
    for length in range(1, len(write.data) + 1):
        part = bytearray(image)
        Write(write.position, write.data[:length]).perform(part)
        found.append(bytes(part))
    return found


async def fill(seed: int, capacity: int, steps: Sequence[Operation]) -> None:
    disk = await new_disk(seed)
    disk.capacity = capacity
    file = disk.open(PATH, create=True)
    for step in steps:
        before = await file.read(0, capacity)
        if isinstance(step, Truncate):
            file.truncate(min(step.size, len(before)))
        else:
            await write_what_fits(file, step, parts(before, step), capacity)
        assert file.size() <= capacity
        assert disk.space("/").free == capacity - file.size()


async def write_what_fits(file: SimulatedFile, step: Write, possible: list[bytes], capacity: int) -> None:
    try:
        file.write(step.position, [step.data])
        possible = possible[-1:]
    except DiskFull:
        assert step.end > capacity
    assert await file.read(0, file.size()) in possible


@given(seeds, st.integers(1, 2_000), st.lists(st.one_of(writes, st.builds(Truncate, sizes)), max_size=8))
def test_a_disk_never_holds_more_than_its_capacity(seed: int, capacity: int, steps: list[Operation]) -> None:
    run_deterministically(fill, seed, capacity, steps, seed=seed)
