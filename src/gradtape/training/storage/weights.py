"""Weights: the variables of a model by name, in a file that other libraries can read too."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gradtape import Tensor, Variable
from gradtape.errors import MismatchError
from gradtape.libraries import check_exports, tensor_on_array
from gradtape.training.storage.decode import new_tree
from gradtape.training.storage.encode import snapshot
from gradtape.training.storage.files import as_path, open_file, write_whole, writer_for
from gradtape.typing import PathLike

__all__ = ["WeightsReport", "load_state", "load_weights", "save_weights", "state_of"]

Named = Iterable[tuple[str, Variable]]


@dataclasses.dataclass(frozen=True)
class WeightsReport:
    """The weights that `load_weights` loaded, and those that did not match.

    >>> report = gt.storage.WeightsReport(("kernel",), missing=("bias",))
    >>> report.complete
    False
    >>> print(report)
    1 loaded; missing: bias
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
            parts.append(f"missing: {', '.join(self.missing)}")
        if self.unexpected:
            parts.append(f"unexpected: {', '.join(self.unexpected)}")
        return "; ".join([*parts, *self.different])


def save_weights(named: Named, path: PathLike) -> None:
    """Write the values of variables by name to a file; the ending names the format.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gt.storage.save_weights([("w", gt.Variable(1.0))], f"{folder}/w.npz")
    """
    place = as_path("save_weights", path)
    writer_for("save_weights", place)
    values = {name: Tensor(None, None, variable.current()) for name, variable in named}
    write_whole(place, snapshot(values), "save_weights")


def load_weights(
    owner: str, named: Named, path: PathLike, strict: bool = True, remedy: str = ""
) -> WeightsReport:
    """Assign the values of a file by name; with `strict`, all match or nothing is assigned.

    `owner` and `remedy` are words for the error.

    >>> import tempfile
    >>> w = gt.Variable(2.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gt.storage.save_weights([("w", w)], f"{folder}/w.npz")
    ...     print(gt.storage.load_weights("model", [("w", w)], f"{folder}/w.npz"))
    1 loaded
    """
    title = f"load_weights: {owner}"
    return _assign_named(title, dict(named), read_arrays(path), strict, strict, remedy)


def state_of(named: Named) -> dict[str, np.ndarray]:
    """The values of variables by name, as copies in NumPy arrays.

    >>> gt.storage.state_of([("w", gt.Variable(1.0))])
    {'w': array(1.)}
    """
    return {name: np.array(variable.numpy()) for name, variable in named}


def load_state(
    owner: str, named: Named, state: Mapping[str, Any], strict: bool = True, remedy: str = ""
) -> None:
    """Assign values by name: shapes must agree, and if `strict` names too; else nothing changes.

    >>> w = gt.Variable(1.0)
    >>> gt.storage.load_state("model", [("w", w)], {"w": 3.0})
    >>> float(w)
    3.0
    """
    arrays = {name: np.array(value, order="C") for name, value in state.items()}
    title = f"load_state_dict: {owner}"
    _assign_named(title, dict(named), arrays, strict, True, remedy)


def _assign_named(
    title: str,
    variables: dict[str, Variable],
    arrays: Mapping[str, np.ndarray],
    same_names: bool,
    same_shapes: bool,
    remedy: str,
) -> WeightsReport:
    """Assign what fits. What does not fit is reported, or an error before anything is assigned."""
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
    names_differ = bool(report.missing or report.unexpected)
    if (same_names and names_differ) or (same_shapes and different):
        _, _, differences = str(report).partition("; ")
        raise MismatchError(f"{title}: {differences}. Nothing was loaded. {remedy}")
    changed = [variables[name] for name in fitting]
    before = [variable._handle for variable in changed]
    try:
        for variable, array in zip(changed, fitting.values(), strict=True):
            variable.assign(tensor_on_array(array))
    except BaseException:
        Variable.hold_again(changed, before)
        raise
    return report


def read_arrays(path: PathLike) -> dict[str, np.ndarray]:
    """The arrays of a file by name, from any library."""
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
