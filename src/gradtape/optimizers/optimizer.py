"""Optimizer: the base of all optimisers. Each subclass adds the formula of its update."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypedDict, TypeVar

import numpy as np

import gradtape as gt
from gradtape import GradientTape, RowSparse, Tensor, Variable, storage
from gradtape.errors import MismatchError
from gradtape.libraries import (
    Displayed,
    TellsChanges,
    check_exports,
    explain_attributes,
    refused_binding,
    tape_records,
    update_rows,
)
from gradtape.optimizers.clipping import Clipping
from gradtape.optimizers.gradient_pairs import as_pairs, check_variables, connected
from gradtape.optimizers.rate import LearningRate, Rate, as_rate, rate_config, rate_now
from gradtape.typing import DType, NonNegative, TensorLike

__all__ = ["Optimizer"]

InitArguments = ParamSpec("InitArguments")
AnyOptimizer = TypeVar("AnyOptimizer", bound="Optimizer")
# The new weight and the new slots.
Update = tuple[Tensor, list[Tensor]]


class Optimizer(TellsChanges, Displayed):
    """The base of all optimisers; derive your own with `slots` and `update`.

    >>> class SignDescent(gt.optimizers.Optimizer):
    ...     def update(self, gradient, weight, slots, rate):
    ...         return weight - rate * gt.sign(gradient), []
    >>> w = gt.Variable([1.0, -3.0])
    >>> optimizer = SignDescent(learning_rate=0.5)
    >>> loss = optimizer.minimize(lambda: gt.sum(w * w), [w])
    >>> w.numpy().tolist()
    [0.5, -2.5]

    | argument | meaning |
    |---|---|
    | learning_rate | a number, a 0-d Variable, or a function of the step count; may be set later |
    | weight_decay | before each update, a variable loses learning_rate * weight_decay of itself |
    | clipnorm, clipvalue, global_clipnorm | bounds of the gradients, at most one of them |
    | lazy | rows that a row-sparse gradient does not name keep weight and moments |

    The learning rate and factors that depend on the step are computed in float64 and used in the
    dtype of each variable.
    """

    # Kinds of dtype that the formula of the update holds for.
    accepts = "f"
    # The slots of each variable: their names, in the order in which `update` gets them.
    slots: tuple[str, ...] = ()
    # Arguments of the constructor that the optimiser adds, kept as attributes of the same names.
    hyperparameters: tuple[str, ...] = ()
    # If true, a gradient of zero changes nothing, so rows that were not looked up can be skipped.
    rows_suffice = False

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        weight_decay: NonNegative | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        name: str | None = None,
        *,
        lazy: bool = False,
    ) -> None:
        self.name = type(self).__name__ if name is None else name
        self.weight_decay = weight_decay
        self.lazy = bool(lazy)
        self._clipping = Clipping(clipnorm, clipvalue, global_clipnorm)
        self._rate: Rate = as_rate(learning_rate, make=self.make_variable)
        self._iterations = self.make_variable(np.int64(0), "iterations")
        # By the number of the variable, in the order in which they were built.
        self._slots: dict[int, tuple[Variable, ...]] = {}
        # Slots that were loaded without their variables: the next ones that are built take them.
        self._loaded_slots: list[tuple[Variable, ...]] = []
        self._undecayed: set[int] = set()
        self._undecayed_names: tuple[str, ...] = ()
        self._warned: set[int] = set()

    # Methods that an optimiser defines.

    def update(
        self, gradient: Tensor, weight: Tensor, slots: list[Tensor], *rates: Tensor
    ) -> Update:
        """The new value of a weight and of its slots, all tensors of one shape.

        For a row-sparse gradient the arguments may hold only the rows that it names.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: an optimizer needs `update(self, gradient, weight, slots, "
            "*rates)`. Define it."
        )

    def rates(self, learning_rate: Tensor, step: Tensor) -> tuple[Tensor, ...]:
        """The 0-d tensors that `update` gets, from the learning rate and the steps taken."""
        return (learning_rate,)

    def start_of(self, slot: str) -> float:
        """The number that a slot is filled with at the beginning."""
        return 0.0

    def update_sparsely(
        self, gradient: RowSparse, weight: Tensor, slots: list[Tensor], *rates: Tensor
    ) -> Update:
        """Like `update`, for the rows that the gradient names; the others stay."""

        def rows(gradient: Tensor, weight: Tensor, *slots: Tensor) -> list[Tensor]:
            new, more = self.update(gradient, weight, list(slots), *rates)
            return [new, *more]

        new, *more = update_rows([weight, *slots], gradient, rows)
        return new, more

    def make_variable(self, start: np.ndarray | np.generic, name: str) -> Variable:
        """A variable for the state: the step count, the learning rate, slots."""
        return Variable(start, trainable=False, name=name)

    # Methods that users call.

    @property
    def learning_rate(self) -> Variable | Tensor:
        """The learning rate: a Variable, or the current value of the schedule. It may be set.

        A number goes into the Variable, so nothing is compiled anew.

        >>> optimizer = gt.optimizers.SGD(0.1)
        >>> optimizer.learning_rate = 0.01
        >>> float(optimizer.learning_rate)
        0.01
        """
        if isinstance(self._rate, Variable):
            return self._rate
        return rate_now(self._rate, self._iterations.value)

    @learning_rate.setter
    def learning_rate(self, value: LearningRate) -> None:
        self._rate = as_rate(value, self._rate, self.make_variable)

    @property
    def iterations(self) -> Variable:
        """The number of steps taken, an integer Variable."""
        return self._iterations

    @property
    def variables(self) -> list[Variable]:
        """All state: the step count, the learning rate if it is a Variable, and the slots."""
        return [variable for _, variable in self.named_variables()]

    def named_variables(self) -> list[tuple[str, Variable]]:
        """All state with its names in `state_dict`."""
        found: list[tuple[str, Variable]] = [("iterations", self._iterations)]
        if isinstance(self._rate, Variable):
            found.append(("learning_rate", self._rate))
        for position, cells in enumerate([*self._slots.values(), *self._loaded_slots]):
            found += zip((f"{slot}.{position}" for slot in self.slots), cells, strict=True)
        return found

    def build(self, variables: Iterable[Variable]) -> None:
        """Make the slots of variables; those that have theirs keep them.

        `apply_gradients` does so itself. It is needed before `load_state_dict`.

        >>> optimizer = gt.optimizers.Adam()
        >>> optimizer.build([gt.Variable([1.0, 2.0])])
        >>> [name for name, _ in optimizer.named_variables()]
        ['iterations', 'learning_rate', 'momentum.0', 'velocity.0']
        """
        variables = list(variables)
        check_variables(self.name, variables, self.accepts)
        for variable in variables:
            if self.slots and variable.number not in self._slots:
                self._slots[variable.number] = self._new_slots(variable)

    def _new_slots(self, variable: Variable) -> tuple[Variable, ...]:
        """The slots that were loaded for the next variable, or new ones."""
        if self._loaded_slots:
            found = self._loaded_slots[0]
            if any(
                (tuple(cell.shape), cell.dtype) != (tuple(variable.shape), variable.dtype)
                for cell in found
            ):
                raise MismatchError(
                    f"{self.name}: the next slots that were loaded have shape {found[0].shape} and "
                    f"dtype {found[0].dtype}, and {variable.name} has shape {variable.shape} and "
                    f"dtype {variable.dtype}. Build the variables in the order of the saved "
                    "optimizer, or save optimizer and model in one tree."
                )
            return self._loaded_slots.pop(0)
        return tuple(
            self.make_variable(
                np.full(variable.shape, self.start_of(slot), variable.dtype),
                f"{variable.name}.{slot}",
            )
            for slot in self.slots
        )

    def slots_of(self, variable: Variable) -> tuple[Variable, ...]:
        """The slots of a variable, made now if it has none.

        >>> optimizer, w = gt.optimizers.Adam(), gt.Variable(1.0)
        >>> len(optimizer.slots_of(w))
        2
        """
        self.build([variable])
        return self._slots.get(variable.number, ())

    def __getstate__(self) -> dict[str, Any]:
        """The state for copies and pickles, whose variables are other ones.

        The copy gives the slots to the variables that it builds first, in the same order.
        """
        if self._undecayed:
            raise TypeError(
                f"{self.name}: an optimizer that spares variables from weight decay by var_list "
                "cannot be copied or pickled. Spare them by var_names."
            )
        slots = [*self._slots.values(), *self._loaded_slots]
        return {**vars(self), "_slots": {}, "_loaded_slots": slots, "_warned": set()}

    def apply_gradients(self, grads_and_vars: Iterable[Sequence[Any]]) -> None:
        """Take one step from pairs of a gradient and its variable.

        Gradients that are None are left out, with one warning; if all are, that is a ValueError.

        >>> w = gt.Variable(1.0)
        >>> with gt.GradientTape() as tape:
        ...     loss = w * w
        >>> gt.optimizers.SGD(0.1).apply_gradients(zip(tape.gradient(loss, [w]), [w]))
        >>> float(w)
        0.8
        """
        self._take_step(*as_pairs(grads_and_vars))

    def apply(self, gradients: Iterable[TensorLike | None], variables: Iterable[Variable]) -> None:
        """Take one step from a list of gradients and a list of variables."""
        self._take_step(list(gradients), list(variables))

    def minimize(
        self,
        loss_fn: Callable[[], Tensor] | Tensor,
        variables: Iterable[Variable] | Callable[[], Iterable[Variable]],
        tape: GradientTape | None = None,
    ) -> Tensor:
        """Take one step down the gradient of a loss, and return the loss before the step.

        `loss_fn` is a function without arguments, or a tensor that `tape` recorded. `variables` may
        be a function too, for variables that the first call of the loss makes.

        >>> w = gt.Variable(1.0)
        >>> float(gt.optimizers.SGD(0.1).minimize(lambda: w * w, [w]))
        1.0
        >>> float(w)
        0.8
        """
        if callable(loss_fn):
            tape = GradientTape() if tape is None else tape
            with tape:
                loss = loss_fn()
        elif tape is None:
            raise ValueError(
                "minimize: a loss that is computed already needs the tape that recorded it. "
                "Pass tape=, or a function that computes the loss."
            )
        else:
            loss = loss_fn
        found = list(variables() if callable(variables) else variables)
        self._take_step(list(tape.gradient(loss, found, unconnected_gradients="none")), found)
        return loss

    def exclude_from_weight_decay(
        self, var_list: Iterable[Variable] = (), var_names: Sequence[str] = ()
    ) -> None:
        """Spare variables from weight decay: those listed, and those whose name holds a word.

        >>> optimizer = gt.optimizers.AdamW()
        >>> optimizer.exclude_from_weight_decay(var_names=["bias"])
        """
        self._undecayed.update(variable.number for variable in var_list or ())
        self._undecayed_names += tuple(var_names or ())

    # One step.

    def _take_step(self, gradients: list[TensorLike | None], variables: list[Variable]) -> None:
        """Take one step, or none: after an error or an interrupt all state is as before."""
        self.build(variables)
        changed = [*variables, *self._changed()]
        before = [variable._handle for variable in changed]
        try:
            self._advance(gradients, variables)
        except BaseException:
            Variable.hold_again(changed, before)
            raise

    def _changed(self) -> list[Variable]:
        """The state that a step changes besides the variables."""
        return [self._iterations, *itertools.chain.from_iterable(self._slots.values())]

    def _advance(self, gradients: list[TensorLike | None], variables: list[Variable]) -> None:
        pairs = self._clipping.apply(connected(gradients, variables, self._warned))
        step = self._iterations.value
        learning_rate = rate_now(self._rate, step)
        numbers = (learning_rate, *self.rates(learning_rate, step))
        by_dtype: dict[DType, list[Tensor]] = {}
        for gradient, variable in pairs:
            dtype = np.finfo(variable.dtype).dtype
            if dtype not in by_dtype:
                by_dtype[dtype] = [gt.astype(n, dtype, copy=False) for n in numbers]
            rate, *rates = by_dtype[dtype]
            weight = variable.value
            if self.weight_decay and self._decays(variable):
                weight = weight - weight * (rate * self.weight_decay)
            self._change(variable, gradient, weight, rates)
        self._iterations.assign(step + 1)

    def _change(
        self, variable: Variable, gradient: Tensor, weight: Tensor, rates: Sequence[Tensor]
    ) -> None:
        """Assign new values to one variable and its slots, from its decayed weight."""
        cells = self._slots.get(variable.number, ())
        before = [cell.value for cell in cells]
        if isinstance(gradient, RowSparse) and (self.lazy or self.rows_suffice):
            new, after = self.update_sparsely(gradient, weight, before, *rates)
        else:
            new, after = self.update(gradient, weight, before, *rates)
        for cell, value in zip(cells, after, strict=True):
            cell.assign(value)
        variable.assign(new)

    def _decays(self, variable: Variable) -> bool:
        words = self._undecayed_names
        return variable.number not in self._undecayed and not any(w in variable.name for w in words)

    # Configuration and state.

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal optimiser, without its state.

        >>> gt.optimizers.SGD(0.1, momentum=0.9).get_config()["momentum"]
        0.9
        """
        return {
            "learning_rate": rate_config(self._rate),
            "weight_decay": self.weight_decay,
            "clipnorm": self._clipping.clipnorm,
            "clipvalue": self._clipping.clipvalue,
            "global_clipnorm": self._clipping.global_clipnorm,
            "name": self.name,
            "lazy": self.lazy,
            **{name: getattr(self, name) for name in self.hyperparameters},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Optimizer:
        """The optimiser that a configuration describes.

        >>> config = gt.optimizers.Adam(beta_1=0.8).get_config()
        >>> gt.optimizers.Adam.from_config(config).beta_1
        0.8
        """
        return cls(**config)

    def state_dict(self) -> dict[str, np.ndarray]:
        """All state by name, as NumPy arrays of their own.

        >>> optimizer = gt.optimizers.SGD(0.1)
        >>> {name: array.item() for name, array in optimizer.state_dict().items()}
        {'iterations': 0, 'learning_rate': 0.1}
        """
        return storage.state_of(self.named_variables())

    def load_state_dict(self, state: Mapping[str, TensorLike]) -> None:
        """Restore the state that `state_dict` returned; names and shapes must be the same.

        >>> optimizer = gt.optimizers.SGD(0.1)
        >>> optimizer.load_state_dict({"iterations": 7, "learning_rate": 0.5})
        >>> int(optimizer.iterations), float(optimizer.learning_rate)
        (7, 0.5)
        """
        remedy = "Call build(variables) first, with the variables of the saved optimizer."
        storage.load_state(self.name, self.named_variables(), state, remedy=remedy)

    def _fields(self) -> list[tuple[str, Any]]:
        set_ones = [(name, each) for name, each in self.get_config().items() if each is not None]
        return [*set_ones, ("iterations", int(self.iterations)), ("variables", len(self._slots))]

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"


class ArgumentsAfterDecay(TypedDict, total=False):
    """Arguments of `Optimizer` that follow its `weight_decay`."""

    clipnorm: float | None
    clipvalue: float | None
    global_clipnorm: float | None
    name: str | None
    lazy: bool


class SharedArguments(ArgumentsAfterDecay, total=False):
    """Arguments of `Optimizer` that every optimiser takes after its own."""

    weight_decay: NonNegative | None


_SHARED = [
    parameter
    for name, parameter in inspect.signature(Optimizer.__init__).parameters.items()
    if name in SharedArguments.__optional_keys__
]


def with_shared_arguments(
    constructor: Callable[Concatenate[AnyOptimizer, InitArguments], None],
) -> Callable[Concatenate[AnyOptimizer, InitArguments], None]:
    """Give a constructor with `**shared` the signature in which those arguments are named.

    They may be passed by position too, as in Keras.
    """
    own = [
        parameter
        for parameter in inspect.signature(constructor).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    named = {parameter.name for parameter in own}
    signature = inspect.Signature([*own, *(each for each in _SHARED if each.name not in named)])

    @functools.wraps(constructor)
    def construct(
        self: AnyOptimizer, *args: InitArguments.args, **kwargs: InitArguments.kwargs
    ) -> None:
        try:
            _, *rest = signature.bind(self, *args, **kwargs).arguments.items()
        except TypeError as error:
            title = type(self).__name__
            refused = refused_binding(title, signature, (self, *args), kwargs)
            raise refused or TypeError(f"{title}: {error}") from None
        constructor(self, **dict(rest))  # type: ignore[call-arg]

    construct.__signature__ = signature  # type: ignore[attr-defined]
    return construct


def root(x: Tensor) -> Tensor:
    """The square root of a second moment.

    Under a tape its derivative is 0 at 0, not infinite: there the moment comes from a gradient of
    0, and a formula that divides by root plus epsilon is smooth.
    """
    return gt.where(gt.equal(x, 0.0), 0.0, gt.sqrt(x)) if tape_records() else gt.sqrt(x)


explain_attributes(Optimizer)
check_exports(globals(), __all__)
