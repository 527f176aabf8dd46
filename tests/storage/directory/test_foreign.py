"""A directory of something else is refused before a byte is written; files beside a broker's own do no harm."""

from random import Random

import pytest
from trio.testing import MockClock

from goqueue.errors import ForeignDirectory, UnknownFormat
from goqueue.storage.directory.datadirectory import DataDirectory
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk

PATH = "/srv/shop"


async def opened(volume: Volume) -> DataDirectory:
    directory = await DataDirectory.open(volume, PATH, node="one", random=Random(1))
    directory.release()
    return directory


async def put(volume: Volume, *names: str) -> None:
    for name in names:
        path = f"{PATH}/{name}"
        await volume.make_directories(path.rpartition("/")[0])
        file = volume.disk.open(path, create=True)
        file.write(0, [b"theirs"])
        file.close()


@pytest.mark.parametrize(
    "names",
    [
        ["shop.py"],
        ["logs/today.log", "meta.json"],
        ["logs/2026/11/today.log"],
        ["shop.py", "lock", "reserve"],
        ["meta.json", "package.json"],
    ],
)
async def test_a_directory_of_something_else_is_refused_and_left_as_it_is(
    names: list[str], volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await put(volume, *names)
    before = disk.list(PATH)
    with pytest.raises(ForeignDirectory, match="name a new or an empty directory with --data"):
        await opened(volume)
    assert disk.list(PATH) == before
    for name in names:
        assert await disk.open(f"{PATH}/{name}").read(0, 10) == b"theirs"


async def test_few_of_many_files_are_named(volume: Volume, autojump_clock: MockClock) -> None:
    await put(volume, *(f"file-{number}\n" for number in range(5)))
    with pytest.raises(ForeignDirectory, match=r"\('file-0\\n', 'file-1\\n', 'file-2\\n' and 2 more\)"):
        await opened(volume)


@pytest.mark.parametrize("names", [[], ["lost+found/x"], [".keep"], ["lock", "meta.json.tmp", "reserve"]])
async def test_an_empty_directory_is_new(names: list[str], volume: Volume, autojump_clock: MockClock) -> None:
    """What everybody's directories have, and what the first moment of a start leaves, counts as nothing."""
    await put(volume, *names)
    assert (await opened(volume)).is_new
    assert not (await opened(volume)).is_new


async def test_other_files_beside_a_brokers_do_no_harm(volume: Volume, autojump_clock: MockClock) -> None:
    await opened(volume)
    await put(volume, "notes.txt", "data/dump.csv")
    assert not (await opened(volume)).is_new


@pytest.mark.parametrize(
    "names",
    [["schemas/orders/v1.json"], ["shop.py", "logs/__schemas/0/x.log"], ["shop.py", "recovered-schemas/0/x"]],
)
async def test_the_schema_registry_is_a_brokers(
    names: list[str], volume: Volume, autojump_clock: MockClock
) -> None:
    """A recovery that was cut short is named by another error."""
    await put(volume, *names)
    if names[-1].startswith("recovered-schemas"):
        with pytest.raises(UnknownFormat, match="goqueue recover schemas"):
            await opened(volume)
    else:
        await opened(volume)


async def test_a_damaged_mark_beside_logs_and_other_files_is_still_a_brokers(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await put(volume, "logs/orders/0/topic.json", "notes.txt", "meta.json")
    directory = await opened(volume)
    assert not directory.is_new
    assert "was damaged" in directory.reports[0]
