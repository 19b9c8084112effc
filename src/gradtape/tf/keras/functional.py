"""Models of Keras' functional kind: layers called on inputs that have no value yet."""

from __future__ import annotations

from typing import Any

from gradtape.libraries import check_exports
from gradtape.pytree import flatten, unflatten
from gradtape.tf.base.dispatch import graphs
from gradtape.tf.base.dtypes import float32
from gradtape.tf.keras.layers.base import Layer
from gradtape.tf.v1.symbolic import Placeholder, Run, Symbolic, picked, running, symbolic_parts
from gradtape.typing import Size

__all__ = ["Input"]


class InputTensor(Placeholder):
    """What `Input` gives; it says whether calls have been noted down since it was made."""

    def __init__(self, dtype: Any, shape: Any, name: str | None) -> None:
        super().__init__(dtype, shape, name)
        self._woke = not graphs.in_use
        self._made = Symbolic.created
        graphs.in_use = True

    def withdraw(self) -> None:
        """Nothing but its shape is wanted: calls need not be looked at for its sake."""
        if self._woke and self._made == Symbolic.created:
            graphs.in_use = False


def Input(  # noqa: N802 - Keras' name
    shape: Any = None,
    batch_size: Size | None = None,
    dtype: Any = None,
    sparse: Any = None,
    ragged: Any = None,
    batch_shape: Any = None,
    name: str | None = None,
    tensor: Any = None,
    optional: bool = False,
) -> Any:
    """An input of a model, without a value: a shape that leaves out the batch.

    >>> inputs = tf.keras.Input(shape=(3,))
    >>> outputs = tf.keras.layers.Dense(2)(inputs)
    >>> model = tf.keras.Model(inputs, outputs)
    >>> inputs.shape, outputs.shape, model(tf.ones([5, 3])).shape
    (TensorShape([None, 3]), TensorShape([None, 2]), TensorShape([5, 2]))
    """
    for word, value in (("sparse", sparse), ("ragged", ragged), ("tensor", tensor)):
        if value is not None and value is not False:
            raise ValueError(f"Input: {word}={value!r} is not covered. Leave it out.")
    if optional:
        raise ValueError("Input: optional=True is not covered. Make two models.")
    if shape is None and batch_shape is None:
        raise ValueError("You must pass a `shape` argument.")
    if batch_shape is None:
        one = isinstance(shape, int)
        batch_shape = (batch_size, *((shape,) if one else shape))
    return InputTensor(float32 if dtype is None else dtype, batch_shape, name or "keras_tensor")


def layers_of(outputs: Any, inputs: list[Any]) -> list[Layer]:
    """The layers between inputs and outputs in Keras' order, which is that of the weights.

    Those that are farther from the outputs come first; of equally far ones, those that lead to the
    first output.
    """
    order: list[Any] = []
    done = {id(each) for each in inputs}
    waiting: list[Any] = list(reversed(symbolic_parts(flatten(outputs)[0])))
    while waiting:
        call = waiting[-1]
        missing = [c for c in symbolic_parts((call.args, call.kwargs)) if id(c) not in done]
        if id(call) not in done and missing:
            waiting += reversed(missing)
            continue
        waiting.pop()
        if id(call) in done:
            continue
        done.add(id(call))
        if isinstance(call, Placeholder):
            raise ValueError(
                f"Model: an output depends on {call!r}, which is not among the inputs. Pass it."
            )
        order.append(call)
    found: dict[int, Layer] = {}
    # How far calls and layers are from the outputs; a shared layer is as far as its first call.
    far: dict[int, int] = {}
    for call in reversed(order):
        layer = getattr(call.function, "__self__", None)
        distance = far.get(id(call), 0)
        if isinstance(layer, Layer):
            distance = far[id(layer)] = max(distance, far.get(id(layer), 0))
        for part in symbolic_parts((call.args, call.kwargs)):
            # Picking one of several outputs of a call is no step.
            step = 0 if call.function is picked else 1
            far[id(part)] = max(far.get(id(part), 0), distance + step)
    for call in order:
        layer = getattr(call.function, "__self__", None)
        if isinstance(layer, Layer):
            found.setdefault(id(layer), layer)
    return sorted(found.values(), key=lambda layer: -far[id(layer)])


def evaluated(inputs: list[Any], outputs: Any, values: Any) -> Any:
    """The outputs for values of the inputs, given in a nest of the same structure."""
    given = flatten(values)[0]
    if (len(given) == 1 and len(inputs) > 1) or len(given) != len(inputs):
        raise ValueError(f"Model: {len(given)} values for {len(inputs)} inputs. Pass one for each.")
    run = Run({id(each): value for each, value in zip(inputs, given, strict=True)})
    leaves, structure = flatten(outputs)
    with running(run):
        return unflatten(structure, [run.values_of(leaf) for leaf in leaves])


check_exports(globals(), __all__)
