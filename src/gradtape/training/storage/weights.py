"""Weights: the variables of a model by name, in a file that other libraries can read too."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from gradtape import Tensor, Variable
from gradtape.argument_checks import check_exports
from gradtape.errors import MismatchError
from gradtape.ir.spec import spec
from gradtape.trace.value import Value
from gradtape.training.storage.decode import new_tree
from gradtape.training.storage.encode import snapshot
from gradtape.training.storage.files import PathLike, as_path, open_file, write_whole, writer_for

__all__ = ["WeightsReport"]

_Named = Iterable[tuple[str, Variable]]


@dataclasses.dataclass(frozen=True)
class WeightsReport:
    """What `load_weights` loaded, and what did not match.

    >>> report = gt.storage.WeightsReport(("kernel",), missing=("bias",))
    >>> report.complete
    False
    >>> print(report)
    1 loaded; missing in the file: bias
    """

    # Names of variables that were loaded, and of those that the file does not have.
    loaded: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    # Names in the file for which there is no variable, and sentences on shapes and dtypes.
    unexpected: tuple[str, ...] = ()
    different: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything matched."""
        return not (self.missing or self.unexpected or self.different)

    def __str__(self) -> str:
        parts = [f"{len(self.loaded)} loaded"]
        if self.missing:
            parts.append(f"missing in the file: {', '.join(self.missing)}")
        if self.unexpected:
            parts.append(f"only in the file: {', '.join(self.unexpected)}")
        return "; ".join([*parts, *self.different])


def save_named(named: _Named, path: PathLike) -> None:
    """Write the values of variables by name."""
    place = as_path("save_weights", path)
    writer_for("save_weights", place)
    values = {name: Tensor(None, None, variable.current()) for name, variable in named}
    write_whole(place, snapshot(values), "save_weights")


def load_named(
    owner: str, named: _Named, path: PathLike, strict: bool, remedy: str
) -> WeightsReport:
    """Assign values by name; with `strict`, nothing is assigned unless all match."""
    variables = dict(named)
    arrays = read_arrays(path)
    fitting: dict[str, np.ndarray] = {}
    different = []
    for name, array in arrays.items():
        variable = variables.get(name)
        if variable is None:
            continue
        if tuple(variable.shape) != array.shape:
            different.append(
                f"{name} has shape {array.shape} there and {tuple(variable.shape)} here"
            )
        elif not np.can_cast(array.dtype, variable.dtype, "same_kind"):
            different.append(f"{name} has dtype {array.dtype} there and {variable.dtype} here")
        else:
            fitting[name] = array.astype(variable.dtype, copy=False)
    report = WeightsReport(
        tuple(fitting),
        tuple(name for name in variables if name not in arrays),
        tuple(name for name in arrays if name not in variables),
        tuple(different),
    )
    if strict and not report.complete:
        raise MismatchError(f"load_weights: {owner}: {report}. Nothing was loaded. {remedy}")
    changed = [variables[name] for name in fitting]
    before = [variable._handle for variable in changed]
    try:
        for variable, array in zip(changed, fitting.values(), strict=True):
            variable.assign(Tensor(None, None, Value(array, spec(array.shape, array.dtype))))
    except BaseException:
        Variable.hold_again(changed, before)
        raise
    return report


def read_arrays(path: PathLike) -> dict[str, np.ndarray]:
    """The arrays of a file by name, whoever wrote it."""
    place = as_path("load_weights", path)
    file = open_file(place, mapped=False)
    if file.content is None:
        return {name: file.array(name, False) for name in file.names()}
    found: Any = new_tree(file.content["tree"], file.content["objects"], file.array)
    if not isinstance(found, dict) or not all(isinstance(v, Tensor) for v in found.values()):
        raise MismatchError(
            f"load_weights: {str(place)!r} holds a tree that gt.save wrote, not weights. "
            "Read it with gt.load."
        )
    return {name: value.numpy() for name, value in found.items()}


check_exports(globals(), __all__)
