"""Static types of the functions that record ops: their operands and their results.

One function serves three callers. Users pass tensors, or anything that becomes one, and get a
Tensor; a subclass of Tensor gives the subclass back; derivative rules pass nodes and get a node.
"""

from __future__ import annotations

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
# An operand of a function that derivative rules call on nodes; the result is of the same kind.
TensorOrNode = TypeVar("TensorOrNode", "Tensor", Node)


class TensorFunction(Protocol[Rest]):
    """A function whose first parameter is the operand, such as `gt.sum`."""

    __name__: str

    @overload
    def __call__(self, x: SomeTensor, /, *args: Rest.args, **kwargs: Rest.kwargs) -> SomeTensor: ...
    @overload
    def __call__(self, x: TensorLike, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Tensor: ...
    @overload
    def __call__(self, x: Node, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Node: ...

    # Tensor uses such functions as methods, so type checkers need the descriptor protocol.
    def __get__(self, instance: object, owner: type | None = None, /) -> Callable[Rest, Tensor]: ...


UnaryFunction: TypeAlias = TensorFunction[[]]


class BinaryFunction(Protocol):
    """A function of two operands, such as `gt.add`."""

    __name__: str

    @overload
    def __call__(self, x: SomeTensor, y: TensorLike, /) -> SomeTensor: ...
    @overload
    def __call__(self, x: TensorLike, y: TensorLike, /) -> Tensor: ...
    @overload
    def __call__(self, x: Node, y: NodeLike, /) -> Node: ...
    @overload
    def __call__(self, x: bool | int | float | complex, y: Node, /) -> Node: ...

    def __get__(
        self, instance: object, owner: type | None = None, /
    ) -> Callable[[TensorLike], Tensor]: ...


class JoiningFunction(Protocol[Rest]):
    """A function of a sequence of operands, such as `gt.concat`."""

    __name__: str

    @overload
    def __call__(
        self, arrays: Sequence[SomeTensor], /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> SomeTensor: ...
    @overload
    def __call__(
        self, arrays: Sequence[TensorLike], /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> Tensor: ...
    @overload
    def __call__(
        self, arrays: Sequence[Node], /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> Node: ...


class PartingFunction(Protocol[Rest]):
    """A function with as many results as the operand has parts, such as `gt.unstack`."""

    __name__: str

    @overload
    def __call__(
        self, x: SomeTensor, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> tuple[SomeTensor, ...]: ...
    @overload
    def __call__(
        self, x: TensorLike, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> tuple[Tensor, ...]: ...
    @overload
    def __call__(self, x: Node, /, *args: Rest.args, **kwargs: Rest.kwargs) -> tuple[Node, ...]: ...


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
