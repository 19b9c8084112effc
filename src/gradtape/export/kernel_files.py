"""Kernel files: machine code of this process, for workers that do not share its folder.

An entry of the cache (`compiler/objects/object_cache.py`) is found by its IR text and processor, so
entries for another processor are never run there.
"""

from __future__ import annotations

from collections.abc import Mapping


def kernel_files() -> dict[str, bytes]:
    """The kernels that this process has written to the cache or loaded from it, by name.

    >>> all(isinstance(content, bytes) for content in gt.export.kernel_files().values())
    True
    """
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
    return found


def install_kernel_files(files: Mapping[str, bytes]) -> int:
    """Put kernels that this machine lacks into its cache; returns their number.

    >>> gt.export.install_kernel_files({})
    0
    """
    # As above.
    from gradtape.compiler.objects import object_cache

    return sum(object_cache.install(name, data) for name, data in files.items())
