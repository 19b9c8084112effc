"""Layer: a module that makes its variables when it first sees an input."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Self

from gradtape.libraries import shown
from gradtape.pytree import flatten, map_leaves
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import PLAIN, functions, graphs
from gradtape.tf.base.dtypes import as_dtype, float32
from gradtape.tf.base.shapes import TensorShape
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.keras import constraints, regularizers
from gradtape.tf.keras.layers.masks import mask_of, with_mask
from gradtape.tf.keras.weights import snake_case, weight
from gradtape.tf.programs.module import Module
from gradtape.tf.programs.trackable import variables_were_made
from gradtape.tf.programs.variable import Variable
from gradtape.tf.v1.symbolic import symbolic_parts
from gradtape.typing import Size

_counts: dict[str, int] = defaultdict(int)


class Phase(threading.local):
    """Whether the layer that is being called was told to behave as in training."""

    training: bool | None = None
    # How many layers are being called, one inside the other.
    depth = 0


phase = Phase()


@contextlib.contextmanager
def in_phase(training: bool | None) -> Iterator[None]:
    """Layers that are called inside, and not told otherwise, are told this."""
    before = phase.training
    phase.training = before if training is None else bool(training)
    try:
        yield
    finally:
        phase.training = before


def _marking(build: Any) -> Any:
    """A `build` that says that it was called, by whomever."""

    @functools.wraps(build)
    def inside(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = build(self, *args, **kwargs)
        self.built = True
        return found

    return inside


def _unique(name: str) -> str:
    number = _counts[name]
    _counts[name] += 1
    return f"{name}_{number}" if number else name


class Layer(Module):
    """A module that makes its variables when it first sees an input; derive your own from it.

    >>> class Scale(tf.keras.layers.Layer):
    ...     def build(self, input_shape):
    ...         self.factor = self.add_weight(shape=(input_shape[-1],), initializer="ones")
    ...
    ...     def call(self, inputs):
    ...         return inputs * self.factor
    >>> scale = Scale()
    >>> scale(tf.constant([[1.0, 2.0]])).numpy().tolist()
    [[1.0, 2.0]]
    >>> [w.shape for w in scale.weights]
    [TensorShape([2])]
    """

    built = False
    _arguments: tuple[Any, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "build" in cls.__dict__:
            cls.build = _marking(cls.__dict__["build"])  # type: ignore[method-assign]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        # What get_config tells, if nobody overrides it.
        made.__dict__["_arguments"] = (args, kwargs)
        return made

    def __init__(
        self,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        self._name = name or _unique(snake_case(type(self).__name__))
        self._trainable = bool(trainable)
        self._dtype = as_dtype(float32 if dtype is None else dtype)
        self.built = False
        shape = kwargs.pop("input_shape", None)
        if shape is None and "input_dim" in kwargs:
            shape = (kwargs.pop("input_dim"),)
        self._input_shape = None if shape is None else (None, *shape)
        self.activity_regularizer = regularizers.get(kwargs.pop("activity_regularizer", None))
        self._regularized: list[Any] = []
        self._added: list[Any] = []
        kwargs.pop("autocast", None)
        if kwargs:
            raise TypeError(f"{type(self).__name__}: unknown arguments {sorted(kwargs)}.")

    @property
    def trainable(self) -> bool:
        """Whether variables are to be trained; setting it sets it for all layers inside, too."""
        return bool(self.__dict__.get("_trainable", True))

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = bool(value)
        for layer in self.submodules:
            if isinstance(layer, Layer):
                layer.__dict__["_trainable"] = bool(value)

    @property
    def input(self) -> Any:
        """The input without a value that the layer was called on last."""
        return self._connection()[0]

    @property
    def output(self) -> Any:
        """What that call gave."""
        return self._connection()[1]

    def _connection(self) -> tuple[Any, Any]:
        owner = self.__dict__.get("_owner", lambda: None)()
        if "_symbolic_call" not in self.__dict__ and owner is not None:
            owner.symbolic()
        if "_symbolic_call" not in self.__dict__:
            raise AttributeError(
                f"{self.name}: the layer has never been called on an input without a value, and "
                "thus has no defined input and output."
            )
        found: tuple[Any, Any] = self.__dict__["_symbolic_call"]
        return found

    @property
    def dtype(self) -> Any:
        """The dtype of the variables, to which inputs are cast."""
        return self._dtype

    compute_dtype = variable_dtype = dtype

    # What a layer defines.

    def build(self, input_shape: Any) -> None:
        """Make the variables for inputs of this shape. It is called once."""
        self.built = True

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The computation."""
        raise NotImplementedError(f"{type(self).__name__}: a layer needs `call(self, inputs)`.")

    def add_weight(
        self,
        *args: Any,
        shape: Any = None,
        initializer: Any = None,
        dtype: Any = None,
        trainable: bool = True,
        regularizer: Any = None,
        constraint: Any = None,
        name: str | None = None,
        autocast: bool = True,
        aggregation: Any = "none",
        overwrite_with_gradient: bool = False,
    ) -> Variable:
        """A variable with a starting value: `add_weight(shape, initializer, ..., name=...)`.

        Older Keras has the name first, `add_weight(name, shape, ...)`, which works too. Variables
        keep their dtype, and there is one replica: nothing is cast or aggregated.
        """
        if overwrite_with_gradient:
            raise ValueError(
                f"{self.name}: overwrite_with_gradient is not covered. Assign to the variable."
            )
        given = iter(args)
        if args and isinstance(args[0], str):
            name = next(given)
        shape = next(given, shape)
        initializer = next(given, initializer)
        start = "glorot_uniform" if initializer is None else initializer
        kind = self._dtype if dtype is None else as_dtype(dtype)
        made = weight(shape, start, kind, trainable, name, constraints.get(constraint))
        penalty = regularizers.get(regularizer)
        if penalty is not None:
            self._regularized.append((made, penalty))
        return made

    add_variable = add_weight

    def _add_named(self, name: str, shape: Any) -> Variable:
        """A variable with the initializer, regularizer and constraint kept under its name."""
        kinds = ("initializer", "regularizer", "constraint")
        given = {kind: getattr(self, f"{name}_{kind}") for kind in kinds}
        return self.add_weight(shape=shape, name=name, **given)

    # What users call.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What `call` gives, once the variables are made and inputs are tensors of our dtype."""
        if "_dtype" not in self.__dict__:
            raise RuntimeError(
                f"In layer {type(self).__name__!r}, you forgot to call `super().__init__()` as "
                "the first statement in the `__init__()` method."
            )
        if graphs.in_use and args and not graphs.is_running() and symbolic_parts(args):
            self.ensure_built(_shapes(args[0]))
            found = graphs.take(self._again, args, kwargs, PLAIN)
            self.__dict__["_symbolic_call"] = (args[0], found)
            return found
        if not phase.depth:
            self._forget_losses()
        given = kwargs.pop("training", None)
        before = phase.training
        training = before if given is None else bool(given)
        if training is not None and takes(self.call, "training"):
            kwargs["training"] = training
        phase.training = training
        phase.depth += 1
        try:
            if graphs.in_use:
                return graphs.take(self._called, args, kwargs, PLAIN)
            return self._called(*args, **kwargs)
        finally:
            phase.depth -= 1
            phase.training = before

    def _again(self, *args: Any, **kwargs: Any) -> Any:
        """A call that was noted down, made in the phase of whoever makes it."""
        return self(*args, **kwargs)

    # Whether a mask of the input is one of the output, unless `compute_mask` tells more.
    supports_masking = False

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """The mask of the output, given that of the input."""
        return previous_mask if self.supports_masking else None

    def _masked(self, inputs: Any, mask: Any, found: Any) -> Any:
        """The output with its mask."""
        if mask is not None and not self.supports_masking:
            warnings.warn(
                f"Layer {self.name!r} (of type {type(self).__name__}) was passed an input with a "
                "mask attached to it. However, this layer does not support masking and will "
                "therefore destroy the mask information.",
                stacklevel=5,
            )
        masks = self.compute_mask(inputs, mask)
        if masks is None:
            return found
        if isinstance(found, (list, tuple)):
            listed = masks if isinstance(masks, (list, tuple)) else [masks] * len(found)
            return type(found)(with_mask(y, m) for y, m in zip(found, listed, strict=True))
        return with_mask(found, masks[0] if isinstance(masks, list) else masks)

    def _called(self, *args: Any, **kwargs: Any) -> Any:
        mask = None if not args or type(args[0]) is Tensor else mask_of(args[0])
        if mask is not None and kwargs.get("mask") is None and takes(self.call, "mask"):
            kwargs["mask"] = mask
        elif kwargs.get("mask") is not None:
            mask = kwargs["mask"]
        if args:
            inputs = map_leaves(self._cast, _whole(args[0]))
            if not self.built:
                self.ensure_built(_shapes(inputs))
            args = (inputs, *args[1:])
        found = self.call(*args, **kwargs)
        if self.activity_regularizer is not None:
            for output in flatten(found)[0]:
                # Over the number of examples, so that its strength does not depend on the batch.
                count = float(output.shape[0]) if output.ndim else 1.0
                self.add_loss(convert(self.activity_regularizer(output)) / max(count, 1.0))
        if args and (mask is not None or type(self).compute_mask is not Layer.compute_mask):
            return self._masked(args[0], mask, found)
        return found

    def _cast(self, x: Any) -> Any:
        x = convert(x, hint=self._dtype if not hasattr(x, "dtype") else None)
        return cast(x, self._dtype) if x.dtype.is_floating else x

    def ensure_built(self, input_shape: Any) -> None:
        """Make the variables, if they are not made yet."""
        if not self.built:
            given = isinstance(input_shape, (tuple, list)) and all(
                n is None or isinstance(n, int) for n in input_shape
            )
            self.build(TensorShape(input_shape) if given else input_shape)
            self.built = True
            variables_were_made()

    # Losses besides the one that compares with targets.

    def add_loss(self, loss: Any) -> None:
        """Count a number, computed while the layer is called, among `losses`."""
        given = loss if isinstance(loss, (list, tuple)) else [loss]
        self._added += [each() if callable(each) else convert(each) for each in given]
        functions.keep(self._added)

    @property
    def losses(self) -> list[Any]:
        """What was added in the last call, and the penalties on variables, layers inside included.

        >>> layer = tf.keras.layers.Dense(1, kernel_regularizer="l2", kernel_initializer="ones")
        >>> y = layer(tf.ones([1, 3]))
        >>> [round(loss.numpy().item(), 4) for loss in layer.losses]
        [0.03]
        """
        layers = [layer for layer in (self, *self.submodules) if isinstance(layer, Layer)]
        found = [loss for layer in layers for loss in layer._added]
        return found + [
            penalty(variable)
            for layer in layers
            for variable, penalty in layer._regularized
            if layer.trainable
        ]

    def _forget_losses(self) -> None:
        for layer in (self, *self.submodules):
            if isinstance(layer, Layer):
                layer._added.clear()

    # Configuration.

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal layer, without the values of its variables.

        >>> tf.keras.layers.Dense(3, activation="tanh").get_config()["units"]
        3
        """
        args, kwargs = self._arguments
        bound = inspect.signature(type(self)).bind(*args, **kwargs)
        bound.apply_defaults()
        found = {"name": self.name, "trainable": self.trainable, "dtype": self._dtype.name}
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            found.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
        return {**found, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The layer that a configuration describes."""
        return cls(**config)

    # Variables.

    def attributes(self) -> list[Any]:
        """What the attributes hold, in the order they were set."""
        hidden = ("_added", "_arguments", "_regularized", "_symbolic_call", "_owner")
        return [value for name, value in vars(self).items() if name not in hidden]

    @property
    def weights(self) -> list[Variable]:
        """All variables, one's own before those of layers inside."""
        return list(super().variables)

    @property
    def variables(self) -> list[Variable]:
        """All variables."""
        return self.weights

    @property
    def trainable_weights(self) -> list[Variable]:
        """The variables to be trained; none of a layer that is not trainable."""
        frozen = {
            id(variable)
            for layer in (self, *self.submodules)
            if getattr(layer, "trainable", True) is False
            for variable in layer.variables
        }
        return [v for v in self.weights if v.trainable and id(v) not in frozen]

    @property
    def trainable_variables(self) -> list[Variable]:
        """The variables to be trained."""
        return self.trainable_weights

    @property
    def non_trainable_weights(self) -> list[Variable]:
        """The variables that are not to be trained."""
        trained = {id(variable) for variable in self.trainable_weights}
        return [variable for variable in self.weights if id(variable) not in trained]

    @property
    def non_trainable_variables(self) -> list[Variable]:
        """The variables that are not to be trained."""
        return self.non_trainable_weights

    def get_weights(self) -> list[Any]:
        """The values of all variables, as NumPy arrays."""
        return [variable.numpy() for variable in self.weights]

    def set_weights(self, weights: Any) -> None:
        """Assign the values of all variables, in their order."""
        values = list(weights)
        if len(values) != len(self.weights):
            raise ValueError(
                f"{self.name}: {len(values)} values for {len(self.weights)} weights. Build the "
                "layer first, and give one for each."
            )
        for variable, value in zip(self.weights, values, strict=True):
            variable.assign(value)

    def count_params(self) -> int:
        """The number of all elements of the variables."""
        return sum(variable.size for variable in self.weights)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}, built={self.built}>"


def _shapes(inputs: Any) -> Any:
    """The shape of an input, or a nest of them in the structure of the inputs."""
    if isinstance(inputs, dict):
        return {key: _shapes(each) for key, each in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return [_shapes(each) for each in inputs]
    if not hasattr(inputs, "shape"):
        raise TypeError(f"a layer is called on {shown(inputs)}. Pass a tensor or a nest of them.")
    return inputs.shape


def _whole(inputs: Any) -> Any:
    """A list of numbers is one input; a list of tensors or arrays is several."""
    leaves = flatten(inputs)[0]
    numbers = leaves and all(isinstance(leaf, (bool, int, float)) for leaf in leaves)
    return convert(inputs) if numbers and isinstance(inputs, (list, tuple)) else inputs


def takes(function: Any, name: str) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in parameters)


def require_channels_last(name: str, data_format: str | None) -> None:
    """Raise an error for data that has channels first."""
    if data_format not in (None, "channels_last"):
        raise ValueError(
            f"{name}: data_format={data_format!r} is not covered. Move the channels to the end "
            "with Permute or tf.transpose."
        )


class InputLayer(Layer):
    """The shape of the input of a Sequential, without the batch.

    >>> model = tf.keras.Sequential([tf.keras.layers.Input(shape=(3,)), tf.keras.layers.Dense(2)])
    >>> len(model.weights)
    2
    """

    def __init__(
        self,
        shape: Any = None,
        batch_size: Size | None = None,
        dtype: Any = None,
        name: Any = None,
        **kwargs: Any,
    ) -> None:
        shape = kwargs.pop("input_shape", shape)
        super().__init__(name=name, dtype=dtype, **kwargs)
        self._input_shape = (batch_size, *(shape or ()))
        self.built = True

    def call(self, inputs: Any) -> Any:
        return inputs
