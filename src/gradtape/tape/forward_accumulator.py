"""ForwardAccumulator: carry tangents along with a computation."""

from __future__ import annotations

from typing import Any, Self, overload

from gradtape.errors import NotRecordingError
from gradtape.graph.node import Node
from gradtape.pytree import flatten, unflatten
from gradtape.tape.recording_scope import Scope, check_unconnected, directions, finish, push
from gradtape.tensor.tensor import Tensor

__all__ = ["ForwardAccumulator"]


class ForwardAccumulator(Scope):
    """Carry tangents along with a computation: forward mode.

    >>> x = gt.asarray(3.0)
    >>> with gt.ForwardAccumulator(x, gt.asarray(1.0)) as acc:
    ...     y = x * x
    >>> float(acc.jvp(y))
    6.0
    """

    def __init__(self, primals: object, tangents: object) -> None:
        super().__init__()
        self._leaves, shape = flatten(primals)
        self._tangents = directions("tangents", shape, tangents)
        self._nodes: list[Node] | None = None

    def __enter__(self) -> Self:
        try:
            super().__enter__()
            if self._nodes is None:
                nodes = [self._enter(leaf, "ForwardAccumulator: primal") for leaf in self._leaves]
                for leaf, node in zip(self._leaves, nodes, strict=True):
                    self._watch_node(leaf, node)
                self._nodes = nodes
            return self
        except BaseException:
            self.leave()
            raise

    @overload
    def jvp(self, target: Tensor, unconnected_gradients: str = "none") -> Tensor: ...

    @overload
    def jvp(self, target: object, unconnected_gradients: str = "none") -> Any: ...

    def jvp(self, target: object, unconnected_gradients: str = "none") -> Any:
        """The tangent of a target computed inside, in the structure of `target`.

        >>> x = gt.asarray([1.0, 2.0])
        >>> with gt.ForwardAccumulator(x, gt.asarray([1.0, 0.0])) as acc:
        ...     y = gt.sum(x * x)
        >>> float(acc.jvp(y))
        2.0
        """
        check_unconnected(unconnected_gradients)
        recording = self._recording
        if recording is None or self._nodes is None:
            raise NotRecordingError("jvp: nothing was recorded. Use `with accumulator:` first.")
        targets, structure = flatten(target)
        entered = [self._enter(leaf, "jvp: target") for leaf in targets]
        found = push(recording, entered, self._nodes, self._tangents, self._outside())
        return unflatten(
            structure,
            [
                finish(recording, t, r, unconnected_gradients)
                for t, r in zip(targets, found, strict=True)
            ],
        )
