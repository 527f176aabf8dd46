"""Images of a disk in the middle of its work."""

from typing import Any

from goqueue.testing.disk import SimulatedDisk

STEPS = ("sync_all", "sync_directory", "put", "rename", "remove", "open")


def images_at(disk: SimulatedDisk, step: int) -> list[SimulatedDisk]:
    """What a power loss leaves just before the disk takes so many more steps; empty if it does not come to that."""
    images: list[SimulatedDisk] = []
    taken = 0

    def counted(name: str) -> None:
        inner = getattr(disk, name)

        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal taken
            taken += 1
            if taken == step:
                images.append(disk.crash())
            return inner(*arguments, **options)

        setattr(disk, name, call)

    for name in STEPS:
        counted(name)
    return images
