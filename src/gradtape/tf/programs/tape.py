"""GradientTape and ForwardAccumulator; gradients and hessians of pending work without a tape."""

from __future__ import annotations

import enum
from typing import Any

import gradtape as gt
from gradtape import Tensor as CoreTensor, Variable
from gradtape.autodiff.jacobian import derive_hessian
from gradtape.autodiff.window import Window, derive_reverse
from gradtape.errors import NotRecordingError
from gradtape.ir.node import Node
from gradtape.libraries import check_exports
from gradtape.pytree import flatten, unflatten
from gradtape.tape import gradient_tape as core
from gradtape.tape.recording_scope import direction, directions, finish
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.tensor import adopt
from gradtape.tf.ops.creation import ones_like, zeros, zeros_like
from gradtape.trace.recording import Recording, state
from gradtape.trace.value import Handle

__all__ = [
    "ForwardAccumulator",
    "GradientTape",
    "UnconnectedGradients",
    "gradients",
    "hessians",
]


class UnconnectedGradients(enum.Enum):
    """The gradient by a source that the target does not depend on: None, or zeros.

    >>> x, y = tf.Variable(1.0), tf.Variable(2.0)
    >>> with tf.GradientTape() as tape:
    ...     z = x * x
    >>> tape.gradient(z, y, unconnected_gradients=tf.UnconnectedGradients.ZERO).numpy().item()
    0.0
    """

    NONE = "none"
    ZERO = "zero"


def _word(choice: UnconnectedGradients | str) -> str:
    """gradtape's word for a choice about unconnected sources."""
    word = choice.value if isinstance(choice, UnconnectedGradients) else choice
    if word not in ("none", "zero"):
        raise ValueError(
            f"Unknown value for unconnected_gradients: {choice!r}. Use "
            "tf.UnconnectedGradients.NONE or tf.UnconnectedGradients.ZERO."
        )
    return word


class GradientTape(core.GradientTape):
    """Record operations on variables and watched tensors, and differentiate the results.

    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * x
    >>> tape.gradient(y, x)
    <tf.Tensor: shape=(), dtype=float32, numpy=6.0>

    Beyond TensorFlow: targets of `jacobian` may be nests, a tape need not be persistent for it, and
    `batch_jacobian` refuses targets that mix examples.
    """

    def note_number(self, *number: object) -> None:
        """Numbers leave tensors without a warning, as in TensorFlow."""

    def gradient(
        self,
        target: object,
        sources: object,
        output_gradients: object = None,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
    ) -> Any:
        """The gradient of the sum of all targets by each source, in the structure of `sources`.

        >>> x = tf.constant([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.gradient(y, x).numpy().tolist()
        [2.0, 4.0]
        """
        if target is None:
            raise TypeError("gradient: `target` is None. Give a tensor, or a nest of them.")
        unconnected = _word(unconnected_gradients)
        leaves, structure = flatten(sources)
        targets = flatten(target)[0]
        if not any(leaf is each for leaf in leaves for each in targets):
            return adopt(super().gradient(target, sources, output_gradients, unconnected))
        # A source that is itself a target has gradient 1, even if it was never watched.
        gradients = super().gradient(target, leaves, output_gradients, "none")
        weights = flatten(output_gradients)[0] or [None] * len(targets)
        for at, leaf in enumerate(leaves):
            if gradients[at] is None and leaf.dtype.kind in "fc":
                known = [w for each, w in zip(targets, weights, strict=True) if each is leaf]
                parts = [ones_like(leaf) if w is None else convert(w, leaf.dtype) for w in known]
                gradients[at] = sum(parts[1:], parts[0]) if parts else None
            if gradients[at] is None and unconnected == "zero":
                gradients[at] = zeros_like(leaf)
        return adopt(unflatten(structure, gradients))

    def jacobian(
        self,
        target: object,
        sources: object,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
        parallel_iterations: object = None,
        experimental_use_pfor: bool = True,
        **more: Any,
    ) -> Any:
        """The derivative of every element of `target` by every element of each source.

        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        >>> tape.jacobian(y, x).numpy().tolist()
        [[2.0, 0.0], [0.0, 4.0]]
        """
        return adopt(super().jacobian(target, sources, _word(unconnected_gradients), **more))

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
        parallel_iterations: object = None,
        experimental_use_pfor: bool = True,
        **more: Any,
    ) -> Any:
        """The Jacobian of each example: row b of `target` by row b of `source`.

        >>> x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        >>> tape.batch_jacobian(y, x).shape
        TensorShape([2, 2, 2])
        """
        found = super().batch_jacobian(target, source, _word(unconnected_gradients), **more)
        if found is None:
            # TensorFlow gives zeros here, whatever `unconnected_gradients` says.
            return zeros((*target.shape, *source.shape[1:]), target.dtype)
        return adopt(found)

    def hessian(
        self,
        target: object,
        sources: object,
        unconnected_gradients: UnconnectedGradients | str = "none",
        **more: Any,
    ) -> Any:
        """The second derivatives of the sum of `target`; TensorFlow has no such method."""
        return adopt(super().hessian(target, sources, _word(unconnected_gradients), **more))

    def jvp(self, target: object, sources: object, tangents: object) -> Any:
        """The derivative of `target` along `tangents`; TensorFlow has no such method."""
        return adopt(super().jvp(target, sources, tangents))

    def hvp(self, target: object, sources: object, vectors: object) -> Any:
        """The Hessian of a scalar target times a vector; TensorFlow has no such method."""
        return adopt(super().hvp(target, sources, vectors))


class ForwardAccumulator(gt.ForwardAccumulator):
    """Carry tangents along with a computation: forward mode.

    >>> x = tf.constant([2.0, 3.0])
    >>> with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as acc:
    ...     y = tf.reduce_sum(x * x)
    >>> acc.jvp(y).numpy().item()
    4.0
    """

    def jvp(
        self,
        primals: object,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
    ) -> Any:
        """The tangents of tensors that were computed inside, in the structure of `primals`.

        >>> x = tf.constant(3.0)
        >>> with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
        ...     y = {"square": x * x}
        >>> acc.jvp(y)["square"].numpy().item()
        6.0
        """
        return adopt(super().jvp(primals, _word(unconnected_gradients)))


def _recording(name: str, targets: list[Any], sources: list[Any]) -> Recording:
    """The recording that holds the targets. A tensor computed without a tape is in none."""
    for target in targets:
        recording = target.recording if isinstance(target, Handle) else None
        if recording is not None and not recording.closed:
            return recording
    unconnected = [
        t for t in targets if isinstance(t, CoreTensor) and not any(t is s for s in sources)
    ]
    if unconnected and not state.tapes:
        raise NotRecordingError(
            f"{name}: ys were computed already, and the recording is gone. Call it before their "
            "values are read, or compute them inside `with tf.GradientTape():`."
        )
    return state.recording


def _node(leaf: object, recording: Recording) -> Node:
    if isinstance(leaf, Variable):
        return leaf.enter_unnoticed(recording)
    return convert(leaf).enter(recording)


def _listed(sources: object) -> list[Any]:
    return list(sources) if isinstance(sources, (list, tuple)) else [sources]


@operation
def gradients(
    ys: object,
    xs: object,
    grad_ys: object = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: object = None,
    stop_gradients: object = None,
    unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
) -> list[Any]:
    """Partial derivatives of the sum of `ys` by each of `xs`, as a list; they need no tape.

    >>> x = tf.constant([2.0])
    >>> tf.gradients([x**2, x**3], x)[0].numpy().tolist()
    [16.0]

    It works while `ys` are pending: in a script of TensorFlow 1, in a `tf.function`, and inside a
    tape.
    """
    unconnected = _word(unconnected_gradients)
    targets, sources = flatten(ys)[0], _listed(xs)
    recording = _recording("gradients", targets, sources)
    weights = directions("grad_ys", flatten(ys)[1], grad_ys)
    nodes, cotangents = [], []
    for leaf, weight in zip(targets, weights, strict=True):
        node = _node(leaf, recording)
        if node.spec.inexact:
            nodes.append(node)
            cotangents.append(direction(recording, node, weight))
    wanted = [_node(leaf, recording) for leaf in sources]
    stops = frozenset(_node(leaf, recording) for leaf in flatten(stop_gradients)[0])
    found = derive_reverse(recording, nodes, cotangents, wanted, stops, None)
    return [adopt(one) for one in finish(recording, sources, found, unconnected)]


@operation
def hessians(
    ys: object,
    xs: object,
    gate_gradients: bool = False,
    aggregation_method: object = None,
    name: str = "hessians",
) -> list[Any]:
    """The Hessian of the sum of `ys` by each of `xs`, as a list.

    >>> x = tf.constant([1.0, 2.0])
    >>> tf.hessians(tf.reduce_sum(x**3), x)[0].numpy().tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    targets, sources = flatten(ys)[0], _listed(xs)
    recording = _recording("hessians", targets, sources)
    nodes = [_node(leaf, recording) for leaf in targets]
    view = Window(recording, frozenset(), None)
    results = []
    for source in [_node(leaf, recording) for leaf in sources]:
        parts = [derive_hessian(view, node, source, source) for node in nodes]
        known = [part for part in parts if part is not None]
        total: Any = known[0] if known else None
        for part in known[1:]:
            total = total + part
        results.append(total)
    return [adopt(one) for one in finish(recording, sources, results, "none")]


check_exports(globals(), __all__)
