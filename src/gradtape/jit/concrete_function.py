"""ConcreteFunction: a gt.function for one signature and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gradtape.ir.program import Program
from gradtape.jit.arguments.signature import Args, Kwargs
from gradtape.jit.arguments.tensor_spec import TensorSpec, checked, is_spec, spec_of
from gradtape.pytree import flatten, flatten_up_to, leaf_names, unflatten
from gradtape.tensor.operators import Operators
from gradtape.tensor.variable import Variable

if TYPE_CHECKING:
    from gradtape.jit.function import Function

__all__ = ["ConcreteFunction"]

R = TypeVar("R")


class ConcreteFunction(Generic[R]):
    """A function for arguments of one kind; made by `get_concrete_function`.

    >>> f = gt.function(lambda x: 2.0 * x)
    >>> double = f.get_concrete_function(gt.TensorSpec((2,)))
    >>> double([1.0, 2.0]).tolist()
    [2.0, 4.0]
    >>> double.structured_input_signature
    ((TensorSpec(shape=(2,), dtype=float64),), {})
    """

    def __init__(
        self,
        function: Function[Any, R],
        args: Args,
        kwargs: Kwargs,
        bound: Args = (),
    ) -> None:
        self.function = function
        self.__name__ = function.__name__
        # The instance of a method, which calls need not pass.
        self._bound = bound
        if args == bound and not kwargs and function.input_signature is not None:
            args = (*bound, *function.input_signature)
        else:
            args, kwargs = function.signature.arranged(args, kwargs)
        leaves = flatten((args, kwargs))[0]
        if not any(is_spec(leaf) for leaf in leaves):
            function.capture(*args, **kwargs)
        self._args = tuple(_specified(argument) for argument in args)
        self._kwargs = {name: _specified(argument) for name, argument in kwargs.items()}

    @property
    def structured_input_signature(self) -> tuple[Args, Kwargs]:
        """Specs of the positional and keyword arguments, and the values of static ones."""
        return self._args[len(self._bound) :], self._kwargs

    def __call__(self, *args: object, **kwargs: object) -> R:
        """Call the function, if the arguments are of its kind."""
        args, kwargs = self.function.signature.arranged((*self._bound, *args), kwargs)
        placed = list(args)
        for wanted in self._args[len(args) :]:
            if any(is_spec(leaf) for leaf in flatten(wanted)[0]):
                raise TypeError(
                    f"{self.__name__}: fewer arguments than it was made for, which are "
                    f"{self.structured_input_signature}. Pass a tensor for each spec."
                )
            placed.append(wanted)
        if len(placed) > len(self._args) or set(kwargs) - set(self._kwargs):
            raise TypeError(
                f"{self.__name__}: more arguments than it was made for, which are "
                f"{self.structured_input_signature}. Leave them out, or make another."
            )
        name = self.function.signature.name
        pairs = enumerate(zip(self._args, placed, strict=True))
        found = [self._agreeing(name(at), wanted, passed) for at, (wanted, passed) in pairs]
        named = {
            key: self._agreeing(key, wanted, kwargs.get(key, wanted))
            for key, wanted in self._kwargs.items()
        }
        return self.function(*found, **named)

    def _agreeing(self, label: str, wanted: object, passed: object) -> object:
        specs, structure = flatten(wanted)
        parts = flatten_up_to(structure, passed, f"{self.__name__}: {label}")
        labels = leaf_names(structure, label)
        found = [self._leaf(*each) for each in zip(labels, specs, parts, strict=True)]
        return unflatten(structure, found)

    def _leaf(self, label: str, wanted: Any, passed: Any) -> Any:
        if is_spec(wanted):
            return checked(self.__name__, label, wanted, passed)
        if type(wanted) is float and isinstance(passed, (int, float)):
            return float(passed)
        same = wanted is passed
        if not same and not isinstance(passed, Operators):
            same = type(wanted) is type(passed) and bool(wanted == passed)
        if not same:
            raise ValueError(
                f"{self.__name__}: {label} is {passed!r}, and this function was made for "
                f"{wanted!r}. Make another with get_concrete_function."
            )
        return passed

    def program(self, *args: object, **kwargs: object) -> Program:
        """The program that computes the results for arguments like these."""
        return self.function.program(*self._bound, *args, **kwargs)

    def explain(self) -> str:
        """What was captured, why, and what it cost."""
        return self.function.explain()

    def __repr__(self) -> str:
        return f"<concrete gt.function {self.__name__} of {self.structured_input_signature}>"


def _specified(argument: object) -> object:
    leaves, structure = flatten(argument)
    return unflatten(structure, [_spec(leaf) for leaf in leaves])


def _spec(leaf: object) -> object:
    found = leaf if isinstance(leaf, Variable) else spec_of(leaf)
    return TensorSpec(found.shape, found.dtype) if is_spec(found) else found
