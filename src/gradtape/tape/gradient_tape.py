"""GradientTape: record what happens to watched tensors, and differentiate it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any, Never, overload

from gradtape.argument_checks import as_flag
from gradtape.autodiff.window import GRADIENT, derive_reverse, remember
from gradtape.errors import NotRecordingError
from gradtape.ir import Node, Rows
from gradtape.pytree import flatten, unflatten
from gradtape.suggestions import explain_attributes, unexpected_arguments
from gradtape.tape.lost_derivatives import ReadNumber, warn_of_none, warn_of_read
from gradtape.tape.recording_scope import check_unconnected, direction, directions, finish, push
from gradtape.tape.tape_jacobians import NONE, UNSTATED, ZERO, Jacobians, check_real
from gradtape.tape.tape_report import TapeReport, tape_report
from gradtape.tape.user_code import Site
from gradtape.tensor import Tensor, Variable, asarray
from gradtape.trace import Handle, Recording, state

__all__ = ["GradientTape", "gradients"]


def function_tape(persistent: bool = False) -> GradientTape:
    """The tape over a call of the user's function, for derivatives by its arguments."""
    tape = GradientTape(persistent, watch_accessed_variables=False)
    tape.of_function = True
    return tape


class GradientTape(Jacobians):
    """Record what happens to watched tensors, and differentiate it.

    >>> x = gt.asarray(3.0)
    >>> with gt.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> float(tape.gradient(y, x))
    6.0

    Variables that are read are watched by themselves:

    >>> v = gt.Variable(2.0)
    >>> with gt.GradientTape() as tape:
    ...     y = v * v * v
    >>> float(tape.gradient(y, v))
    12.0
    """

    def __init__(
        self, persistent: bool = False, watch_accessed_variables: bool = True, **unknown: Never
    ) -> None:
        if unknown:
            raise unexpected_arguments((), unknown)
        super().__init__()
        if persistent is not False:
            persistent = as_flag("GradientTape: persistent", persistent)
        if watch_accessed_variables is not True:
            where = "GradientTape: watch_accessed_variables"
            watch_accessed_variables = as_flag(where, watch_accessed_variables)
        self.persistent = persistent
        self._watch_accessed = watch_accessed_variables

    def watch(self, tensor: object) -> None:
        """Treat a tensor, a Variable or any nest of them as a source from here on.

        >>> x = gt.asarray([1.0, 2.0])
        >>> with gt.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = gt.sum(x * x)
        >>> tape.gradient(y, x).tolist()
        [2.0, 4.0]
        """
        self._require_open()
        if type(tensor) is Tensor and tensor.recording is None and tensor.computed is not None:
            # The usual case, a value: what follows comes to the same.
            recording = self._recording
            if type(recording) is Recording and tensor.computed.spec.inexact:
                self._watch_node(tensor, recording.enter_value(tensor.computed))
                return
        for leaf in flatten(tensor)[0]:
            if not isinstance(leaf, (Tensor, Variable)):
                raise ValueError(
                    f"watch: expected a tensor, a Variable or a nest of them, got "
                    f"{type(leaf).__name__}. Make a tensor with gt.asarray first."
                )
            if leaf.dtype.kind not in "fc":
                warnings.warn(
                    f"watch: a tensor of dtype {leaf.dtype} has no derivative; its gradient is "
                    "None. Cast it to a float first.",
                    stacklevel=2,
                )
                self.without_derivative = {*self.without_derivative, id(leaf)}
                continue
            if self._recording is None:
                self._attach()
            node = self._enter(leaf, "watch")
            if isinstance(leaf, Variable):
                self._variables[leaf.number] = (leaf, node)
            self._watch_node(leaf, node)

    def note_read(self, variable: Variable, node: Node) -> None:
        """Watch a variable that was read while this tape records, if it watches such."""
        if self._watch_accessed and variable.trainable and variable.number not in self._variables:
            self._variables[variable.number] = (variable, node)
            if node.spec.inexact and self._recording is not None:
                # `_watch_node` written out: a training loop comes here for each variable.
                self._watched.setdefault(id(variable), (variable, node))
                self._followed.clear()
                self._recording.watched[node] = None

    def note_number(self, name: str, tensor: Tensor | Variable, number: object) -> None:
        """A number was read out of a tensor while this tape records."""
        recording, site = self._recording, Site.here()
        if isinstance(tensor, Variable):
            follows = recording is not None and self._depends_on_watched(
                tensor.enter_unnoticed(recording)
            )
        else:
            follows = self.follows(tensor)
        if recording is None or site is None or not follows:
            return
        read = ReadNumber(name, number, site, len(recording.leaves))
        if self.of_function:
            warn_of_read(read)
        else:
            self.numbers = (*self.numbers, read)

    def watched_variables(self) -> tuple[Variable, ...]:
        """The variables watched so far, in the order they were constructed.

        >>> v = gt.Variable(1.0)
        >>> with gt.GradientTape() as tape:
        ...     y = v * 2.0
        >>> tape.watched_variables()[0] is v
        True
        """
        return tuple(variable for _, (variable, _) in sorted(self._variables.items()))

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Do not record the ops inside.

        >>> x = gt.Variable(2.0)
        >>> with gt.GradientTape() as tape:
        ...     with tape.stop_recording():
        ...         k = x * x
        ...     y = k * x
        >>> float(tape.gradient(y, x))
        4.0
        """
        if self not in state.tapes:
            raise NotRecordingError(
                "stop_recording: this tape is not recording. Use it inside `with tape:`."
            )
        self._close()
        try:
            yield
        finally:
            if self._recording is not None and self._active:
                self._attach(opening=True)

    def reset(self) -> None:
        """Forget all that was recorded and watched, and go on recording.

        >>> x = gt.Variable(2.0)
        >>> with gt.GradientTape() as tape:
        ...     y = x * x
        ...     tape.reset()
        ...     z = x * 3.0
        >>> float(tape.gradient(z, x))
        3.0
        """
        recording = self._recording
        self._watched = {}
        self._variables = {}
        self._windows = []
        self.numbers = ()
        self._consumed = False
        if self in state.tapes and recording is not None:
            self._windows = [[len(recording.log), None]]
            recording.log.edges.append(len(recording.log))
        elif recording is not None:
            self.detach()

    @overload
    def gradient(
        self,
        target: object,
        sources: Tensor | Variable,
        output_gradients: object = None,
        unconnected_gradients: str = "none",
    ) -> Tensor: ...

    @overload
    def gradient(
        self,
        target: object,
        sources: list[Variable] | list[Tensor],
        output_gradients: object = None,
        unconnected_gradients: str = "none",
    ) -> list[Tensor]: ...

    @overload
    def gradient(
        self,
        target: object,
        sources: object,
        output_gradients: object = None,
        unconnected_gradients: str = "none",
    ) -> Any: ...

    def gradient(
        self,
        target: object,
        sources: object,
        output_gradients: object = None,
        unconnected_gradients: str = UNSTATED,
        **unknown: Never,
    ) -> Any:
        """The gradient of the sum of all targets by each source, in the structure of `sources`.

        >>> x = gt.Variable([1.0, 2.0])
        >>> with gt.GradientTape() as tape:
        ...     y = x * x
        >>> tape.gradient(y, x, output_gradients=[1.0, 10.0]).tolist()
        [2.0, 40.0]

        Where nothing connects a source with the targets its gradient is None, or zeros with
        `unconnected_gradients="zero"`.
        """
        if unknown:
            raise unexpected_arguments((), unknown)
        key = None
        leaves, structure = flatten(sources)
        # By identity: anything may be passed here, and `check_unconnected` refuses it below.
        zeros = unconnected_gradients is ZERO
        unstated = unconnected_gradients is UNSTATED
        if output_gradients is None and (zeros or unstated or unconnected_gradients is NONE):
            key, known = self._remembered(GRADIENT, target, leaves, zeros or unstated)
            if known:
                self._end_if_single_use()
                return unflatten(structure, known)
        check_unconnected(unconnected_gradients)
        recording = self._checked_recording()
        targets, shape = flatten(target)
        weights = directions("output_gradients", shape, output_gradients)
        nodes, cotangents = [], []
        for position, leaf in enumerate(targets):
            node = self._enter(leaf, "gradient: target")
            if not node.spec.inexact:
                continue
            nodes.append(node)
            cotangents.append(direction(recording, node, weights[position]))
        found = self._reverse(nodes, cotangents, leaves)
        self._warn_of_numbers(nodes)
        if unstated and None in found:
            self._warn_of_none("gradient", nodes, leaves, found)
        if key is not None:
            remember(recording, GRADIENT, key, found)
        results = finish(recording, leaves, found, unconnected_gradients)
        self._end_if_single_use()
        return unflatten(structure, results)

    @overload
    def jvp(self, target: Tensor, sources: object, tangents: object) -> Tensor: ...

    @overload
    def jvp(self, target: object, sources: object, tangents: object) -> Any: ...

    def jvp(self, target: object, sources: object, tangents: object) -> Any:
        """The derivative of `target` along `tangents` of the sources, in forward mode.

        >>> x = gt.Variable(3.0)
        >>> with gt.GradientTape() as tape:
        ...     y = x * x
        >>> float(tape.jvp(y, x, 2.0))
        12.0

        `tangents` has the structure of `sources`, with None for zero; the result that of `target`,
        with zeros where nothing connects it to the sources.
        """
        recording = self._checked_recording()
        leaves, shape = flatten(sources)
        along = directions("tangents", shape, tangents)
        nodes = [self._source(leaf) for leaf in leaves]
        targets, structure = flatten(target)
        entered = [self._enter(leaf, "jvp: target") for leaf in targets]
        self._warn_of_numbers(entered)
        found = push(recording, entered, nodes, along, self._outside_of((*entered, *nodes)))
        results = finish(recording, targets, found, "zero")
        self._end_if_single_use()
        return unflatten(structure, results)

    @overload
    def hvp(self, target: Tensor, sources: Tensor | Variable, vectors: object) -> Tensor: ...

    @overload
    def hvp(self, target: object, sources: object, vectors: object) -> Any: ...

    def hvp(self, target: object, sources: object, vectors: object) -> Any:
        """The Hessian of a scalar target times a vector, forward over reverse.

        >>> x = gt.Variable([1.0, 2.0])
        >>> with gt.GradientTape() as tape:
        ...     y = gt.sum(x * x * x)
        >>> tape.hvp(y, x, [1.0, 0.0]).tolist()
        [6.0, 0.0]

        `vectors` has the structure of `sources`, with None for zero, and so has the result.
        """
        recording = self._checked_recording()
        leaves, structure = flatten(sources)
        along = directions("vectors", structure, vectors)
        nodes = [self._source(leaf) for leaf in leaves]
        y = self._enter(target, "hvp: target")
        self._warn_of_numbers([y])
        check_real("hvp", y, nodes)
        cotangent = direction(recording, y, None)
        # The gradient may contain nodes that were recorded outside the windows, such as cos(x) as
        # the derivative of sin(x). In it they are not constants, so the target is copied first.
        alone = self.window().isolated(y, tuple(nodes))
        watched = self._watched_nodes()
        inner, held = [alone.target], alone.sources
        slopes = derive_reverse(recording, inner, [cotangent], held, frozenset(), watched)
        known = [slope for slope in slopes if slope is not None]
        dense = [slope if isinstance(slope, Node) else slope.dense() for slope in known]
        pushed = iter(push(recording, dense, held, along, frozenset()))
        found = [None if slope is None else next(pushed) for slope in slopes]
        restored = iter(alone.restored([node for node in found if node is not None]))
        found = [None if node is None else next(restored) for node in found]
        results = finish(recording, leaves, found, "zero")
        self._end_if_single_use()
        return unflatten(structure, results)

    def report(self, target: object = None) -> TapeReport:
        """A report of the recorded ops: those kept, with the reason, and those without use.

        >>> x, scale = gt.Variable(2.0, name="x"), gt.asarray(3.0)
        >>> with gt.GradientTape() as tape:
        ...     factor = gt.exp(scale)
        ...     y = x * x
        >>> print(tape.report(y))
        2 ops recorded, 1 source watched, 0 values kept (0 bytes)
          variable x: float64[]
          recorded for nothing: 1
            exp: float64[]: it depends on nothing that is watched

        With a `target`, ops that do not reach it count as recorded for nothing. It is a text, which
        notebooks show as a table; lines are known while `gt.profile` runs.
        """
        targets = [
            self._enter(leaf, "report: target")
            for leaf in flatten(target)[0]
            if self._recording is not None and leaf is not None
        ]
        return tape_report(self, targets)

    def _reverse(
        self, targets: list[Node], cotangents: list[Node], leaves: list[object]
    ) -> list[Node | Rows | None]:
        assert self._recording is not None
        nodes = [self._source(leaf) for leaf in leaves]
        watched = self._watched_nodes()
        # The inputs of a source matter only if they may be watched.
        computed = [node for node in nodes if node not in watched]
        outside = self._outside_of((*targets, *computed))
        return derive_reverse(self._recording, targets, cotangents, nodes, outside, watched)


explain_attributes(GradientTape)


def gradients(
    ys: object,
    xs: object,
    grad_ys: object = None,
    stop_gradients: object = None,
    unconnected_gradients: str = UNSTATED,
) -> list[Tensor | None]:
    """Partial derivatives of the sum of `ys` by each of `xs`, in the recording of a live tape.

    >>> x = gt.asarray([2.0])
    >>> with gt.GradientTape():
    ...     g = gt.gradients([x**2, x**3], x)
    >>> g[0].tolist()
    [16.0]
    """
    check_unconnected(unconnected_gradients)
    targets, structure = flatten(ys)
    recording = next(
        (
            t.recording
            for t in targets
            if isinstance(t, Handle) and t.recording and t.recording.tapes
        ),
        None,
    )
    if recording is None and state.tapes:
        recording = state.recording
    if recording is None:
        raise NotRecordingError(
            "gradients: nothing is recorded here. Compute ys inside `with gt.GradientTape():` "
            "and call gradients there."
        )
    weights = directions("grad_ys", structure, grad_ys)
    nodes, cotangents = [], []
    for leaf, weight in zip(targets, weights, strict=True):
        node = asarray(leaf).enter(recording)
        if node.spec.inexact:
            nodes.append(node)
            cotangents.append(direction(recording, node, weight))
    leaves = flatten(xs)[0]
    sources = [leaf.enter(recording) for leaf in leaves]
    stops = frozenset(leaf.enter(recording) for leaf in flatten(stop_gradients)[0])
    found = derive_reverse(recording, nodes, cotangents, sources, stops - set(sources), None)
    missing = [(at, leaves[at], sources[at]) for at, one in enumerate(found) if one is None]
    if missing and unconnected_gradients is UNSTATED:
        warn_of_none("gradients", None, nodes, missing)
    return finish(recording, leaves, found, unconnected_gradients)
