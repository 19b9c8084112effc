"""Every exception gradtape raises on purpose, each built to carry value, rule and remedy."""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "ArgumentError",
    "AxisError",
    "CheckpointError",
    "ConvergenceError",
    "DamagedFileError",
    "DtypeError",
    "GraphError",
    "InPlaceError",
    "IndexRangeError",
    "LostDerivativeError",
    "MatrixError",
    "MismatchError",
    "MixedExamplesError",
    "NoValueError",
    "NonFiniteError",
    "NotRecordingError",
    "ShapeError",
    "SizeError",
    "SparsityError",
    "StorageError",
    "TapeConsumedError",
    "UndefinedRuleError",
    "UnsavableError",
]


def shown(value: object, depth: int = 0) -> str:
    """A value in an error: its `repr`, or its type where that is long or fails.

    >>> from gradtape.errors import shown
    >>> shown(np.zeros((2, 3)))
    'an array of shape (2, 3) and dtype float64'
    """
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if hasattr(type(value), "enter"):
        # The value of a tensor is not read: it may not have one.
        return f"a {type(value).__name__} of shape {getattr(value, 'shape', None)}"
    if isinstance(value, (list, tuple)) and value and depth < 3:
        items = [shown(each, depth + 1) for each in value[:4]]
        text = ", ".join(items if len(value) <= 4 else [*items, "..."])
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' * (len(value) == 1)})"
    try:
        text = repr(value)
    except Exception:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:60]} ... of type {type(value).__name__}"


def is_of_this_line(error: BaseException) -> bool:
    """Whether the line that catches an error raised it, and no Python function that it called.

    A line may translate an error of its own conversion, such as that of `float("x")`. An error that
    comes from a method of the value, or from computing it, has its own cause and passes.

    >>> from gradtape.errors import is_of_this_line
    >>> try:
    ...     float("x")
    ... except ValueError as error:
    ...     print(is_of_this_line(error))
    True
    """
    step = error.__traceback__
    return step is None or step.tb_next is None


class ArgumentError(Exception):
    """An argument that breaks a rule of an op: the base of ShapeError and DtypeError.

    >>> issubclass(gt.errors.ShapeError, gt.errors.ArgumentError)
    True
    """


class ShapeError(ArgumentError, ValueError):
    """Shapes that an op cannot combine.

    >>> try:
    ...     gt.add([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0])
    ... except gt.errors.ShapeError as error:
    ...     print(error)
    add: shapes (3,) and (4,) do not broadcast (axis 0: 3 and 4). Reshape one of them.
    """


class SizeError(ShapeError):
    """A shape with more bytes than can be addressed.

    >>> try:
    ...     gt.broadcast_to(gt.asarray(1.0), (2**40, 2**40))
    ... except gt.errors.SizeError as error:
    ...     print(str(error).split(", ")[-1])
    more than 2**63 - 1. Choose smaller lengths.
    """


class AxisError(ShapeError, IndexError):
    """An axis that a tensor does not have.

    >>> try:
    ...     gt.sum(gt.asarray([1.0]), axis=3)
    ... except gt.errors.AxisError as error:
    ...     print(error)
    sum: axis 3 is out of range for 1 dimensions (-1 to 0).
    """


class IndexRangeError(ArgumentError, IndexError):
    """An index, or a key, that a tensor has no element for.

    >>> try:
    ...     gt.asarray([1.0, 2.0])[5]
    ... except gt.errors.IndexRangeError as error:
    ...     print(error)
    x[...]: index 5 is out of range for axis 0 of length 2 (-2 to 1).
    """


class DtypeError(ArgumentError, TypeError):
    """A dtype that an op does not accept.

    >>> issubclass(gt.errors.DtypeError, TypeError)
    True
    """


class MatrixError(ArgumentError, np.linalg.LinAlgError):
    """A matrix for which the result does not exist: it is singular, or not positive definite.

    >>> try:
    ...     gt.linalg.inv(np.zeros((2, 2)))
    ... except gt.errors.MatrixError as error:
    ...     print(str(error)[:26])
    inv: a matrix is singular
    """


class UndefinedRuleError(LookupError):
    """A rule, usually a derivative, that an op declares undefined.

    >>> issubclass(gt.errors.UndefinedRuleError, LookupError)
    True
    """


class TapeConsumedError(RuntimeError):
    """A second derivative request on a non-persistent tape.

    >>> x = gt.asarray(2.0)
    >>> with gt.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> g = tape.gradient(y, x)
    >>> try:
    ...     tape.gradient(y, x)
    ... except gt.errors.TapeConsumedError:
    ...     print("consumed")
    consumed
    """


class NotRecordingError(RuntimeError):
    """A request that needs a recording tape where there is none.

    >>> issubclass(gt.errors.NotRecordingError, RuntimeError)
    True
    """


class InPlaceError(TypeError):
    """An in-place write to a result that is no storage, such as `x[0][1] = 5`.

    >>> issubclass(gt.errors.InPlaceError, TypeError)
    True
    """


class LostDerivativeError(TypeError):
    """A tensor that a live tape tracks and that leaves as an array, which carries no derivative.

    >>> try:
    ...     gt.grad(lambda x: gt.sum(np.array([x, x])))(1.0)
    ... except gt.errors.LostDerivativeError as error:
    ...     print(str(error)[:42])
    a tensor that a tape tracks was to become
    """


class MixedExamplesError(ValueError):
    """A batch Jacobian whose examples are not known to be independent.

    >>> x = gt.Variable([1.0, 2.0])
    >>> with gt.GradientTape() as tape:
    ...     y = x - gt.mean(x)
    >>> try:
    ...     tape.batch_jacobian(y, x)
    ... except gt.errors.MixedExamplesError as error:
    ...     print(str(error)[:40])
    batch_jacobian: mean: sum mixes examples
    """


class SparsityError(ValueError):
    """A sparsity pattern that is too large to list, or a colouring that does not fit its pattern.

    >>> issubclass(gt.errors.SparsityError, ValueError)
    True
    """


class NoValueError(RuntimeError):
    """A read of a tensor that has a shape and a dtype but no value yet, as inside `gt.vmap`.

    >>> try:
    ...     gt.vmap(lambda x: x if x > 0.0 else -x)(gt.asarray([1.0, -2.0]))
    ... except gt.errors.NoValueError as error:
    ...     print(str(error).partition(":")[0])
    a tensor inside vmap has no value
    """


class NonFiniteError(FloatingPointError):
    """A NaN or an infinity that an op made under `gt.debug_nans`.

    >>> issubclass(gt.errors.NonFiniteError, FloatingPointError)
    True
    """


class ConvergenceError(RuntimeError):
    """A solver that did not reach a solution; it carries how far it came.

    >>> try:
    ...     gt.root(lambda x: x**2 + 1.0, 1.0)
    ... except gt.errors.ConvergenceError as error:
    ...     print(str(error)[:30], error.residual > 0.5)
    root: hybr found no solution:  True

    `x` is the best point found, in the structure of the first guess, `residual` the residual
    there, `iterations` their number, and `result` SciPy's own result if SciPy searched.
    """

    def __init__(
        self,
        message: str,
        *,
        x: object = None,
        residual: float = math.nan,
        iterations: int = 0,
        result: object = None,
    ) -> None:
        super().__init__(message)
        self.x = x
        self.residual = residual
        self.iterations = iterations
        self.result = result


class GraphError(AssertionError):
    """A malformed graph found by the verifier: a defect of gradtape, not of its user.

    >>> issubclass(gt.errors.GraphError, AssertionError)
    True
    """


class StorageError(Exception):
    """A file that cannot be loaded, or an object that cannot be saved: the base of four errors.

    >>> issubclass(gt.errors.DamagedFileError, gt.errors.StorageError)
    True
    """


class DamagedFileError(StorageError, ValueError):
    """A file that is damaged, cut off, or not written by `gt.save`. Nothing was changed.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "notes.npz")
    ...     with open(path, "w") as file:
    ...         _ = file.write("no archive")
    ...     try:
    ...         gt.load(path)
    ...     except gt.errors.DamagedFileError as error:
    ...         print("notes.npz" in str(error))
    True
    """


class UnsavableError(StorageError, TypeError):
    """An object that `gt.save` cannot save; the error names its place in the tree.

    >>> try:
    ...     gt.save({"lock": [object()]}, "state.npz")
    ... except gt.errors.UnsavableError as error:
    ...     print(str(error)[:34])
    save: tree['lock'][0] is a object,
    """


class MismatchError(StorageError, ValueError):
    """A file that does not fit the objects it is loaded into, or names classes that are unknown.

    >>> issubclass(gt.errors.MismatchError, ValueError)
    True
    """


class CheckpointError(StorageError, RuntimeError):
    """A checkpoint that could not be written, or a directory that another process writes to.

    >>> issubclass(gt.errors.CheckpointError, RuntimeError)
    True
    """
