"""GradientTape and ForwardAccumulator: the scopes that say which nodes stay differentiable."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from gradtape.errors import NotRecordingError, TapeConsumedError
from gradtape.graph.node import Node, constant
from gradtape.graph.recording import Handle, Recording, state
from gradtape.pytree import flatten, unflatten
from gradtape.recording.derive import derive_forward, derive_reverse, graft, hold_result
from gradtape.recording.flush import flush, release
from gradtape.tensor import Tensor, asarray
from gradtape.variable import Variable

__all__ = ["ForwardAccumulator", "GradientTape", "gradients"]

# At the start of an outermost tape, more pending work than this is computed first.
PENDING_AT_ENTRY = 512


class Scope:
    """What both kinds of tape share: entering, watching, and the windows in which ops count."""

    persistent = True

    def __init__(self) -> None:
        self._recording: Recording | None = None
        self._active = False
        self._stopped = False
        # Stretches of the recording, by position, during which this scope was recording.
        self._windows: list[list[int | None]] = []
        self._watched: dict[int, tuple[Any, Node]] = {}
        self._variables: dict[int, tuple[Variable, Node | None]] = {}

    def __enter__(self) -> Any:
        if self._active:
            raise ValueError("this tape is recording already. Leave it first, or make another tape.")
        state.epoch += 1
        if not state.tapes:
            self._begin_step()
        self._attach()
        self._active = True
        self._open()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._active:
            self._close()
            self._active = False
            if self._recording is None:
                return
        recording = self._recording
        if recording is not None and self._stopped:
            self._stopped = False

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._detach()

    def _begin_step(self) -> None:
        """An outermost tape begins a step: pending updates run now, ended tapes keep their own."""
        recording = state.recording
        own = self._recording
        if own is recording:
            return
        if recording.updates or recording.tapes or len(recording.nodes) > PENDING_AT_ENTRY:
            flush(recording)
        if state.recording.tapes:
            state.recording = Recording()
        if own is not None and not own.closed:
            flush(state.recording)
            state.recording = own

    def _attach(self) -> Recording:
        if self._recording is None or self._recording.closed:
            self._recording = state.recording
        elif self._recording is not state.recording:
            raise RuntimeError(
                "a tape that has ended cannot be entered again inside another one. "
                "Enter it outside, or make a new tape."
            )
        self._recording.tapes[id(self)] = self.persistent
        return self._recording

    def _detach(self) -> None:
        recording, self._recording = self._recording, None
        self._watched = {}
        if recording is not None and recording.tapes.pop(id(self), None) is not None:
            release(recording)

    def _open(self) -> None:
        recording = self._recording
        assert recording is not None
        recording.active += 1
        self._windows.append([len(recording.nodes), None])
        state.tapes.append(self)

    def _close(self) -> None:
        if self in state.tapes:
            state.tapes.remove(self)
            recording = self._recording
            if recording is not None:
                recording.active -= 1
                self._windows[-1][1] = len(recording.nodes)

    def _outside(self) -> frozenset[Node]:
        """Nodes of the recording that were applied while this tape was not recording."""
        recording = self._recording
        assert recording is not None
        outside: list[Node] = []
        position = 0
        for start, end in self._windows:
            outside += recording.nodes[position:start]
            position = len(recording.nodes) if end is None else end
        outside += recording.nodes[position:]
        return frozenset(outside)

    def _watch_node(self, key: Any, node: Node) -> None:
        self._watched.setdefault(id(key), (key, node))
        if self._recording is not None:
            self._recording.watched[node] = None

    def note_read(self, variable: Variable, node: Node) -> None:
        """A variable was read while this tape records."""

    def _enter(self, leaf: Any, what: str) -> Node:
        """The node of a tensor or variable in this tape's recording."""
        recording = self._recording
        assert recording is not None
        if isinstance(leaf, (Handle, Variable)):
            return leaf.enter(recording)
        raise ValueError(
            f"{what}: expected a tensor, a Variable or a nest of them, got {type(leaf).__name__}. "
            "Make a tensor with gt.asarray first."
        )


class GradientTape(Scope):
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

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        super().__init__()
        self.persistent = bool(persistent)
        self._watch_accessed = bool(watch_accessed_variables)
        self._consumed = False

    def watch(self, tensor: Any) -> None:
        """Treat a tensor, a Variable or any nest of them as a source from here on.

        >>> x = gt.asarray([1.0, 2.0])
        >>> with gt.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = gt.sum(x * x)
        >>> tape.gradient(y, x).tolist()
        [2.0, 4.0]
        """
        self._require_open()
        for leaf in flatten(tensor)[0]:
            if not isinstance(leaf, (Handle, Variable)):
                raise ValueError(
                    f"watch: expected a tensor, a Variable or a nest of them, got "
                    f"{type(leaf).__name__}. Make a tensor with gt.asarray first."
                )
            if leaf.dtype.kind not in "fc":
                warnings.warn(
                    f"watch: a tensor of dtype {leaf.dtype} has no derivative; its gradient is None. "
                    "Cast it to a float first.",
                    stacklevel=2,
                )
                continue
            if self._recording is None:
                self._attach()
            node = self._enter(leaf, "watch")
            if isinstance(leaf, Variable):
                self._variables[leaf.number] = (leaf, node)
                self._watch_node(leaf, node)
            else:
                self._watch_node(leaf, node)

    def note_read(self, variable: Variable, node: Node) -> None:
        if self._watch_accessed and variable.trainable and variable.number not in self._variables:
            self._variables[variable.number] = (variable, node)
            if variable.dtype.kind in "fc":
                self._watch_node(variable, node)

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
        """Do not record what happens inside.

        >>> x = gt.Variable(2.0)
        >>> with gt.GradientTape() as tape:
        ...     with tape.stop_recording():
        ...         k = x * x
        ...     y = k * x
        >>> float(tape.gradient(y, x))
        4.0
        """
        if self not in state.tapes:
            raise NotRecordingError("stop_recording: this tape is not recording. Use it inside `with tape:`.")
        self._close()
        try:
            yield
        finally:
            if self._recording is not None and self._active:
                self._open()

    def reset(self) -> None:
        """Drop what was recorded and watched, and go on.

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
        self._consumed = False
        if self in state.tapes and recording is not None:
            self._windows = [[len(recording.nodes), None]]
        elif recording is not None:
            self._detach()

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: str = "none",
    ) -> Any:
        """The gradient of the sum of all targets by each source, in the structure of `sources`.

        >>> x = gt.Variable([1.0, 2.0])
        >>> with gt.GradientTape() as tape:
        ...     y = x * x
        >>> tape.gradient(y, x, output_gradients=[1.0, 10.0]).tolist()
        [2.0, 40.0]
        """
        check_unconnected(unconnected_gradients)
        recording = self._ask()
        targets = flatten(target)[0]
        weights = flatten(output_gradients)[0] if output_gradients is not None else []
        if weights and len(weights) != len(targets):
            raise ValueError(
                f"gradient: {len(targets)} targets and {len(weights)} output_gradients. Give one each."
            )
        nodes, cotangents = [], []
        for position, leaf in enumerate(targets):
            node = self._enter(leaf, "gradient: target")
            if not node.spec.inexact:
                continue
            nodes.append(node)
            given = weights[position] if weights else None
            cotangents.append(_cotangent(recording, node, given))
        leaves, structure = flatten(sources)
        found = self._reverse(nodes, cotangents, leaves)
        results = [
            _finish(recording, leaf, result, unconnected_gradients)
            for leaf, result in zip(leaves, found, strict=True)
        ]
        if not self.persistent:
            self._consume()
        return unflatten(structure, results)

    def jvp(self, target: Any, sources: Any, tangents: Any) -> Any:
        """The derivative of `target` along `tangents` of the sources, in forward mode.

        >>> x = gt.Variable(3.0)
        >>> with gt.GradientTape() as tape:
        ...     y = x * x
        >>> float(tape.jvp(y, x, 2.0))
        12.0
        """
        recording = self._ask()
        leaves = flatten(sources)[0]
        directions = flatten(tangents)[0]
        nodes = [self._source(leaf) for leaf in leaves]
        targets, structure = flatten(target)
        entered = [self._enter(leaf, "jvp: target") for leaf in targets]
        found = push(recording, entered, nodes, leaves, directions, self._outside())
        if not self.persistent:
            self._consume()
        return unflatten(structure, [_finish(recording, t, r, "zero") for t, r in zip(targets, found, strict=True)])

    def hvp(self, target: Any, sources: Any, vectors: Any) -> Any:
        """The Hessian of a scalar target times a vector, forward over reverse.

        >>> x = gt.Variable([1.0, 2.0])
        >>> with gt.GradientTape() as tape:
        ...     y = gt.sum(x * x * x)
        >>> tape.hvp(y, x, [1.0, 0.0]).tolist()
        [6.0, 0.0]
        """
        recording = self._ask()
        leaves, structure = flatten(sources)
        nodes = [self._source(leaf) for leaf in leaves]
        y = self._enter(target, "hvp: target")
        cotangent = _cotangent(recording, y, None)
        slopes = self._reverse([y], [cotangent], leaves)
        known = [slope for slope in slopes if slope is not None]
        dense = [slope if isinstance(slope, Node) else slope.dense() for slope in known]
        pushed = iter(push(recording, dense, nodes, leaves, flatten(vectors)[0], self._outside()))
        found = [None if slope is None else next(pushed) for slope in slopes]
        if not self.persistent:
            self._consume()
        return unflatten(structure, [_finish(recording, s, r, "zero") for s, r in zip(leaves, found, strict=True)])

    def report(self) -> str:
        """What this tape recorded, watched and keeps, as text.

        >>> x = gt.Variable(2.0, name="x")
        >>> with gt.GradientTape() as tape:
        ...     y = x * x
        >>> print(tape.report())
        1 op recorded, 1 source watched, 0 values kept (0 bytes)
          variable x: float64[]
        """
        recording = self._recording
        inside = 0
        kept: list[Any] = []
        if recording is not None:
            inside = len(recording.nodes) - len(self._outside())
            kept = list(recording.values.values())
        size = sum(array.nbytes for array in kept)
        ops = "op" if inside == 1 else "ops"
        watched = "source" if len(self._watched) == 1 else "sources"
        lines = [
            f"{inside} {ops} recorded, {len(self._watched)} {watched} watched, "
            f"{len(kept)} values kept ({size} bytes)"
        ]
        for variable in self.watched_variables():
            shape = ",".join(map(str, variable.shape))
            lines.append(f"  variable {variable.name}: {variable.dtype}[{shape}]")
        return "\n".join(lines)

    def _require_open(self) -> None:
        if self._consumed:
            raise TapeConsumedError(
                "this tape has given its gradient and holds nothing any more. "
                "Make it with GradientTape(persistent=True) to ask more than once."
            )

    def _ask(self) -> Recording:
        """Checks before a derivative; a tape that is not persistent stops recording first."""
        self._require_open()
        if self._recording is None:
            raise NotRecordingError(
                "this tape has recorded nothing. Use `with tape:` around the computation first."
            )
        if not self.persistent and self._active:
            self._close()
        return self._recording

    def _consume(self) -> None:
        self._consumed = True
        self._detach()

    def _source(self, leaf: Any) -> Node:
        """The node of a source: what it was when it was watched, or what it is."""
        if isinstance(leaf, Variable) and leaf.number in self._variables:
            node = self._variables[leaf.number][1]
            if node is not None:
                return node
        entry = self._watched.get(id(leaf))
        if entry is not None and entry[0] is leaf:
            return entry[1]
        if isinstance(leaf, Variable):
            # Not read under this tape: look without being noticed.
            return leaf._handle.enter(self._recording)  # type: ignore[arg-type]
        return self._enter(leaf, "gradient: source")

    def _reverse(self, targets: list[Node], cotangents: list[Node], leaves: list[Any]) -> list[Any]:
        assert self._recording is not None
        nodes = [self._source(leaf) for leaf in leaves]
        watched = tuple(node for _, node in self._watched.values())
        return derive_reverse(
            self._recording, targets, cotangents, nodes, self._outside(), watched
        )


class ForwardAccumulator(Scope):
    """Carry tangents along with a computation: forward mode.

    >>> x = gt.asarray(3.0)
    >>> with gt.ForwardAccumulator(x, gt.asarray(1.0)) as acc:
    ...     y = x * x
    >>> float(acc.jvp(y))
    6.0
    """

    def __init__(self, primals: Any, tangents: Any) -> None:
        super().__init__()
        self._leaves = flatten(primals)[0]
        self._tangents = flatten(tangents)[0]
        if len(self._leaves) != len(self._tangents):
            raise ValueError(
                f"ForwardAccumulator: {len(self._leaves)} primals and {len(self._tangents)} tangents. "
                "Give one tangent for each primal."
            )
        self._nodes: list[Node] | None = None

    def __enter__(self) -> Any:
        super().__enter__()
        if self._nodes is None:
            self._nodes = [self._enter(leaf, "ForwardAccumulator: primal") for leaf in self._leaves]
            for leaf, node in zip(self._leaves, self._nodes, strict=True):
                self._watch_node(leaf, node)
        return self

    def jvp(self, target: Any, unconnected_gradients: str = "none") -> Any:
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
        found = push(recording, entered, self._nodes, self._leaves, self._tangents, self._outside())
        return unflatten(
            structure,
            [_finish(recording, t, r, unconnected_gradients) for t, r in zip(targets, found, strict=True)],
        )


def push(
    recording: Recording,
    targets: Sequence[Node],
    nodes: Sequence[Node],
    leaves: Sequence[Any],
    tangents: Sequence[Any],
    outside: frozenset[Node],
) -> list[Any]:
    """Tangents of targets, in forward mode."""
    if len(tangents) != len(nodes):
        raise ValueError(f"jvp: {len(nodes)} sources and {len(tangents)} tangents. Give one each.")
    entered = [
        _cotangent(recording, node, tangent) for node, tangent in zip(nodes, tangents, strict=True)
    ]
    return derive_forward(recording, targets, nodes, entered, outside)


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: str = "none",
) -> list[Any]:
    """Partial derivatives of the sum of `ys`, by each of `xs`, of what a live tape has recorded.

    >>> x = gt.asarray([2.0])
    >>> with gt.GradientTape():
    ...     g = gt.gradients([x**2, x**3], x)
    >>> g[0].tolist()
    [16.0]
    """
    check_unconnected(unconnected_gradients)
    targets = flatten(ys)[0]
    recording = next(
        (t.recording for t in targets if isinstance(t, Handle) and t.recording and t.recording.tapes),
        None,
    )
    if recording is None and state.tapes:
        recording = state.recording
    if recording is None:
        raise NotRecordingError(
            "gradients: nothing is recorded here. Compute ys inside `with gt.GradientTape():` "
            "and ask there."
        )
    weights = flatten(grad_ys)[0] if grad_ys is not None else [None] * len(targets)
    nodes, cotangents = [], []
    for leaf, weight in zip(targets, weights, strict=True):
        node = asarray(leaf).enter(recording)
        if node.spec.inexact:
            nodes.append(node)
            cotangents.append(_cotangent(recording, node, weight))
    leaves = flatten(xs)[0]
    sources = [leaf.enter(recording) for leaf in leaves]
    stops = frozenset(leaf.enter(recording) for leaf in flatten(stop_gradients)[0])
    found = derive_reverse(recording, nodes, cotangents, sources, stops - set(sources), None)
    return [
        _finish(recording, leaf, result, unconnected_gradients)
        for leaf, result in zip(leaves, found, strict=True)
    ]


def check_unconnected(word: str) -> None:
    if word not in ("none", "zero"):
        raise ValueError(f'unconnected_gradients: {word!r} is unknown. Use "none" or "zero".')


def _cotangent(recording: Recording, node: Node, given: Any) -> Node:
    """Ones, or what the user gave, in the dtype and shape of `node`."""
    from gradtape.ops.casting import cast
    from gradtape.ops.shapes import broadcast_to

    if given is None:
        return constant(1, node.spec)
    entered = asarray(given).enter(recording)
    if entered.shape != node.shape:
        raise ValueError(
            f"a derivative of shape {node.shape} was given a direction of shape {entered.shape}. "
            "Give one of the same shape."
        ) if entered.shape != () else None  # type: ignore[misc]
    return broadcast_to(cast(entered, node.dtype), node.shape)


def _finish(recording: Recording, leaf: Any, result: Any, unconnected: str) -> Any:
    """A handle on a derivative; None or zeros where nothing connects."""
    if result is None:
        if unconnected == "none":
            return None
        result = constant(0, leaf.spec if isinstance(leaf, Tensor) else _spec_of(leaf))
    current = state.recording
    if current is not recording and state.tapes and isinstance(result, Node):
        return current.hold(graft(current, recording, result), Tensor)
    return hold_result(recording, result)


def _spec_of(variable: Variable) -> Any:
    from gradtape.graph.spec import spec

    return spec(variable.shape, variable.dtype)
