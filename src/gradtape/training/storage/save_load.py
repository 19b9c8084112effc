"""gt.save and gt.load: a tree of state as one file, and back."""

from __future__ import annotations

import os
from typing import Any

from gradtape.libraries import check_exports
from gradtape.training.storage.decode import new_tree, tree_into
from gradtape.training.storage.encode import snapshot
from gradtape.training.storage.files import as_path, open_file, write_whole, writer_for
from gradtape.training.storage.structure import refuse
from gradtape.typing import PathLike

__all__ = ["load", "save"]

_NOWHERE: Any = ...


def save(tree: Any, path: PathLike) -> None:
    """Write a tree of tensors, variables, modules, optimisers, generators and plain data to a file.

    >>> import os, tempfile
    >>> model = gt.nn.Dense(1, in_features=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.npz")
    ...     gt.save({"model": model, "epoch": 3}, path)
    ...     loaded = gt.load(path)
    >>> loaded["model"], loaded["epoch"]
    (Dense(units=1, activation=None, use_bias=True), 3)

    The ending of the path names the format: `.safetensors` (which needs `gradtape[storage]`) or
    `.npz`. The file is written beside its place and then renamed, so a crash leaves the old file or
    the new one. Objects that the tree holds twice are saved once. Code is never saved.
    """
    if isinstance(tree, (str, os.PathLike)) and not isinstance(path, (str, os.PathLike)):
        raise TypeError("save: the path is the second argument. Write gt.save(tree, path).")
    place = as_path("save", path)
    writer_for("save", place)
    write_whole(place, snapshot(tree))


def load(path: PathLike, *, into: Any = _NOWHERE, verify: bool = True, mmap: bool = True) -> Any:
    """Read a tree that `gt.save` wrote.

    >>> import os, tempfile
    >>> w = gt.Variable([1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "w.npz")
    ...     gt.save({"w": w}, path)
    ...     _ = w.assign([0.0, 0.0])
    ...     _ = gt.load(path, into={"w": w})
    >>> w.numpy().tolist()
    [1.0, 2.0]

    With `into`, the variables, modules, optimisers and generators of that tree take the saved
    values, and the result holds them; if anything does not fit, nothing is changed. Large tensors
    of a safetensors file are mapped and read from the disk when they are used; `mmap=False` copies
    them. `verify=False` skips the checksums of arrays.
    """
    place = as_path("load", path)
    file = open_file(place, verify, mmap)
    content = file.content
    if content is None:
        refuse(place, "it holds arrays, but no structure that gt.save wrote")
    if into is _NOWHERE:
        return new_tree(content["tree"], content["objects"], file.array)
    return tree_into(content["tree"], content["objects"], file.array, into)


check_exports(globals(), __all__)
