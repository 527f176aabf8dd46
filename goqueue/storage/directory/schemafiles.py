"""`{data}/schemas/{subject}/v{n}.json`: the schemas for people, the text of each version that is not deleted.

Nobody reads them: the registry's truth is the log `__schemas`. They are written once a change is durable, and put
right at each start. Subjects are percent-encoded in paths. Files of other names stay as they are. Only where the
log is gone, the files' names show that there was one.
"""

import re
from collections.abc import Iterable, Mapping

from goqueue.core.schemas.schema import VersionNumber
from goqueue.core.schemas.subjects import folder_of
from goqueue.core.schemas.text import TEXT_SIZE_MAX
from goqueue.storage.log.volume import TEMPORARY, Volume
from goqueue.storage.slices import Slices

SCHEMAS = "schemas"
_NAME = re.compile(rf"v([1-9][0-9]*)\.json(?:{re.escape(TEMPORARY)})?")


class SchemaFiles:
    def __init__(self, volume: Volume, data: str) -> None:
        self._volume = volume
        self._root = f"{data}/{SCHEMAS}"

    def highest(self) -> VersionNumber:
        """The highest version of any subject that has a file; 0 when there is none."""
        folders = self._names_in(self._root)
        names = (name for folder in folders for name in self._names_in(f"{self._root}/{folder}"))
        return max((int(found[1]) for name in names if (found := _NAME.fullmatch(name))), default=0)

    async def show(self, subject: str, texts: Mapping[VersionNumber, str], slices: Slices) -> None:
        """The folder of the subject has the files of these versions, and no other; without any it goes."""
        self._remove(f"{self._root}/{folder_of(subject)}", except_for={f"v{number}.json" for number in texts})
        await self.add(subject, texts, slices)

    async def add(self, subject: str, texts: Mapping[VersionNumber, str], slices: Slices) -> None:
        """The folder of the subject has the files of these versions."""
        for number, text in texts.items():
            await slices.step()
            await self._write(f"{self._root}/{folder_of(subject)}", f"v{number}.json", text.encode())

    def show_no_others(self, subjects: Iterable[str]) -> None:
        """The files of subjects other than these go."""
        wanted = {folder_of(subject) for subject in subjects}
        for folder in self._names_in(self._root):
            if folder not in wanted:
                self._remove(f"{self._root}/{folder}", except_for=())

    def _names_in(self, folder: str) -> list[str]:
        disk = self._volume.disk
        return disk.list(folder) if disk.is_directory(folder) else []

    def _remove(self, folder: str, except_for: Iterable[str]) -> None:
        gone = {name for name in self._names_in(folder) if _NAME.fullmatch(name)} - {*except_for}
        for name in gone:
            self._volume.disk.remove(f"{folder}/{name}")
        if gone and not self._volume.disk.list(folder):
            self._volume.disk.remove_directory(folder)
            self._volume.forget_folders(folder)

    async def _write(self, folder: str, name: str, contents: bytes) -> None:
        if not await self._has(f"{folder}/{name}", contents):
            await self._volume.make_directories(folder)
            await self._volume.replace(folder, name, [contents])

    async def _has(self, path: str, contents: bytes) -> bool:
        disk = self._volume.disk
        if not disk.exists(path) or disk.is_directory(path) or disk.size(path) != len(contents):
            return False
        return await self._volume.read_whole(path, TEXT_SIZE_MAX) == contents
