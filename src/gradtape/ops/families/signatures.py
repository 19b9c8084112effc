"""Static types of the functions that record ops: their operands and their results.

One function serves three callers. Users pass tensors, or anything that becomes one, and get a
Tensor; a subclass of Tensor gives the subclass back; derivative rules pass nodes and get a node.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    overload,
)

from gradtape.dtypes import DTypeLike
from gradtape.ir.node import Node

if TYPE_CHECKING:
    # Tensor lives above the ops that it records. Only its static type is needed here.
    from gradtape.tensor.tensor import Tensor
    from gradtape.tensor.tensor_like import TensorLike
else:
    Tensor = TensorLike = Any

__all__ = [
    "Axes",
    "BinaryFunction",
    "DTypeLike",
    "NodeLike",
    "Operand",
    "OperandLike",
    "ShapeLike",
    "SomeTensor",
    "Tensor",
    "TensorFunction",
    "TensorLike",
    "TensorOrNode",
    "UnaryFunction",
    "kind_of_operand",
    "kind_of_operands",
    "kind_of_parts",
    "parts_of_kind",
]

ShapeLike: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...] | list[int]
Axes: TypeAlias = ShapeLike | None
# The other operand of a node in a derivative rule.
NodeLike: TypeAlias = Node | bool | int | float | complex

Rest = ParamSpec("Rest")
SomeTensor = TypeVar("SomeTensor", bound="Tensor")
# The result is of the same kind. One variable for users' tensors and nodes of derivative rules,
# because editors show users every overload. mypy compares the overloads by its bound, and finds an
# overlap that is none: no node is like a tensor.
Operand = TypeVar("Operand", bound="Tensor | Node")
OperandLike: TypeAlias = "TensorLike | Node"
# An operand of a function that derivative rules call on nodes; the result is of the same kind.
TensorOrNode = TypeVar("TensorOrNode", "Tensor", Node)


class TensorFunction(Protocol[Rest]):
    """A function whose first parameter is the operand, such as `gt.sum`."""

    __name__: str

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, x: Operand, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> Operand: ...
    @overload
    def __call__(self, x: TensorLike, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Tensor: ...

    # Tensor uses such functions as methods, so type checkers need the descriptor protocol.
    def __get__(self, instance: object, owner: type | None = None, /) -> Callable[Rest, Tensor]: ...


UnaryFunction: TypeAlias = TensorFunction[[]]


class BinaryFunction(Protocol):
    """A function of two operands, such as `gt.add`."""

    __name__: str

    @overload
    def __call__(self, x: Operand, y: OperandLike, /) -> Operand: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, x: TensorLike, y: TensorLike, /) -> Tensor: ...
    @overload
    def __call__(self, x: bool | int | float | complex, y: Operand, /) -> Operand: ...

    def __get__(
        self, instance: object, owner: type | None = None, /
    ) -> Callable[[TensorLike], Tensor]: ...


class JoiningFunction(Protocol[Rest]):
    """A function of a sequence of operands, such as `gt.concat`."""

    __name__: str

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, arrays: Sequence[Operand], /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> Operand: ...
    @overload
    def __call__(
        self, arrays: Sequence[TensorLike], /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> Tensor: ...


class PartingFunction(Protocol[Rest]):
    """A function with as many results as the operand has parts, such as `gt.unstack`."""

    __name__: str

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, x: Operand, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> tuple[Operand, ...]: ...
    @overload
    def __call__(
        self, x: TensorLike, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> tuple[Tensor, ...]: ...


class ShownSignature(inspect.Signature):
    """The signature that documents show, made when it is first read.

    Places for arguments that do not exist are left out. `by_name` says that the array API standard
    passes optional arguments by name; that functions take them by position as well is NumPy's way.
    """

    __slots__ = ("__dict__",)

    def __init__(self, function: Callable[..., object], by_name: bool) -> None:
        self._function = function
        self._by_name = by_name

    @functools.cached_property
    def _found(self) -> inspect.Signature:
        written = inspect.Signature.from_callable(_without_shown(self._function))
        found = [
            each
            for each in written.parameters.values()
            # Lengths one by one, as in PyTorch, are not in the signature of the standard.
            if each.annotation not in ("Never", "None")
            and not (each.name == "more" and each.kind is each.VAR_POSITIONAL)
        ]
        optional = [each for each in found if each.default is not each.empty]
        if self._by_name and found[0].kind is inspect.Parameter.POSITIONAL_ONLY:
            found = [
                each.replace(kind=each.KEYWORD_ONLY)
                if each in optional and each.kind is each.POSITIONAL_OR_KEYWORD
                else each
                for each in found
            ]
        return written.replace(parameters=found)

    @property
    def parameters(self) -> types.MappingProxyType[str, inspect.Parameter]:
        return self._found.parameters

    @property
    def return_annotation(self) -> Any:
        return self._found.return_annotation

    def replace(self, **changes: Any) -> Any:
        return self._found.replace(**changes)


def _without_shown(function: Any) -> Any:
    given = function.__name__, function.__defaults__, function.__closure__
    copy = types.FunctionType(function.__code__, {}, *given)
    copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, function.__annotations__
    return copy


def show_signatures(namespace: dict[str, Any], by_name: str) -> None:
    """Let the functions of a module show the signatures that documents have."""
    standard, vague = by_name.split(), ("Any", "object")
    for name, function in namespace.items():
        if isinstance(function, type):
            function = vars(function).get("__init__")
        if not isinstance(function, types.FunctionType):
            continue
        inner: Any = inspect.unwrap(function)
        types_of = inner.__annotations__
        if name in standard or "unknown" in inner.__code__.co_varnames:
            inner.__signature__ = ShownSignature(inner, name in standard)
        elif types_of.get("return") in vague and (
            hasattr(inner, "op") or name in ("cast", "where")
        ):
            known = {each: "TensorLike" for each, kind in types_of.items() if kind in vague}
            inner.__annotations__ = {**types_of, **known, "return": "Tensor"}
            inner.__signature__ = ShownSignature(inner, by_name=False)


# The decorators below give functions the overloads above for type checkers; they do nothing else.


def kind_of_operand(
    function: Callable[Concatenate[TensorLike, Rest], Tensor],
) -> TensorFunction[Rest]:
    """The result is a Node, Tensor or subclass, like the operand.

    >>> @gt.libraries.kind_of_operand
    ... def twice(x):
    ...     return 2.0 * x
    >>> float(twice(gt.asarray(1.0)))
    2.0
    """
    return function  # type: ignore[return-value]


def kind_of_operands(function: Callable[[TensorLike, TensorLike], Tensor]) -> BinaryFunction:
    """The result is a Node, Tensor or subclass, like the two operands."""
    return function  # type: ignore[return-value]


def kind_of_parts(
    function: Callable[Concatenate[Sequence[TensorLike], Rest], Tensor],
) -> JoiningFunction[Rest]:
    """The result is a Node, Tensor or subclass, like the parts that are joined."""
    return function  # type: ignore[return-value]


def parts_of_kind(
    function: Callable[Concatenate[TensorLike, Rest], tuple[Tensor, ...]],
) -> PartingFunction[Rest]:
    """Each result is a Node, Tensor or subclass, like the operand."""
    return function  # type: ignore[return-value]
