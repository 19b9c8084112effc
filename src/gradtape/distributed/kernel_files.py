"""Kernel files: machine code that the driver has, brought to workers that do not share its folder.

An entry of the cache (`compiler/objects/object_cache.py`) is found by its IR text and processor, so
entries for another processor are never run there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelFiles:
    """Entries of the kernel cache by name."""

    entries: dict[str, bytes]

    @property
    def size(self) -> int:
        """The bytes of all entries."""
        return sum(map(len, self.entries.values()))


def used_here() -> KernelFiles:
    """The entries that this process has written or loaded, as far as they still exist."""
    # The cache is used by the compiler alone; without it there are no entries.
    from gradtape.compiler.objects import object_cache
    from gradtape.compiler.objects.cache_folder import cache_folder

    folder = cache_folder()
    found: dict[str, bytes] = {}
    for name in object_cache.names_used() if folder is not None else ():
        assert folder is not None
        try:
            found[name] = (folder / name).read_bytes()
        except OSError:
            continue
    return KernelFiles(found)


def install(files: KernelFiles) -> int:
    """Put entries that this machine lacks into its cache; how many there were."""
    # As above.
    from gradtape.compiler.objects import object_cache

    return sum(object_cache.install(name, data) for name, data in files.entries.items())
