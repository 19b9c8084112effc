"""checkpoint: compute values again in the backward pass, but for those that a policy saves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar, overload

from gradtape.autodiff.python_rules import Checkpointed
from gradtape.ir import PICK, Node, Op
from gradtape.ops.custom.custom import NAMED
from gradtape.pytree import Tree, flatten, unflatten
from gradtape.records import dataclass
from gradtape.runtime.kept_for_backward import is_expensive
from gradtape.tape.custom_derivatives import with_rule
from gradtape.tensor.tensor import Tensor, asarray
from gradtape.trace import record, state

__all__ = ["Policy", "checkpoint", "checkpoint_name", "save_any_except", "save_only"]

KINDS = ("nothing", "everything", "contractions")

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Policy:
    """The values that a checkpoint saves; made by `save_only`, `save_any_except` or from a word.

    >>> gt.save_only("attention")
    Policy(kind='only', names=frozenset({'attention'}))
    """

    kind: str
    names: frozenset[str] = frozenset()

    def saved(self, nodes: Sequence[Node]) -> set[Node]:
        """The nodes, of those inside a checkpoint, whose values are saved."""
        # A Python callback may give another value the next time, so it is never called twice.
        found = {node for node in nodes if _producer(node).opaque}
        if self.kind == "contractions":
            found.update(node for node in nodes if _takes_long(_producer(node)))
        elif self.kind == "only":
            found.update(
                node for node in nodes if node.op is NAMED and node.params[0] in self.names
            )
        elif self.kind in ("everything", "except"):
            named = [node for node in nodes if node.op is NAMED and node.params[0] in self.names]
            without = {*named, *[node.inputs[0] for node in named]}
            # The node of a name is the value under it, and costs nothing.
            found.update(n for n in nodes if n not in without and n.op is not NAMED)
        return {node for node in found if type(node.spec) is not tuple}


def _producer(node: Node) -> Op:
    return node.inputs[0].op if node.op is PICK else node.op


def _takes_long(op: Op) -> bool:
    """Whether an op takes long for the size of its result: products, solutions of systems."""
    return op.labels is not None or op.solves


@overload
def checkpoint(f: Callable[P, R], *, policy: str | Policy = "nothing") -> Callable[P, R]: ...


@overload
def checkpoint(
    f: None = None, *, policy: str | Policy = "nothing"
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def checkpoint(
    f: Callable[..., object] | None = None, *, policy: str | Policy = "nothing"
) -> Callable[..., object]:
    """The same function, whose inner values are computed again in the backward pass, not kept.

    >>> layer = gt.checkpoint(lambda x: gt.tanh(gt.sin(x) * 2.0))
    >>> round(float(gt.grad(layer)(0.5)), 6)
    0.784234

    The policy says which of them are saved nevertheless:

    - `"nothing"`: only arguments and results;
    - `"contractions"`: results of `matmul`, `einsum`, `solve`, `cholesky` and `inv`;
    - `gt.save_only("a", "b")`: values that `gt.checkpoint_name` gave one of these names;
    - `gt.save_any_except("a")`: all values but those of these names;
    - `"everything"`: all values, also those that a tape would compute again because it is cheap.

    >>> @gt.checkpoint(policy="contractions")
    ... def layer(x, w):
    ...     return gt.tanh(gt.sin(x) @ w)
    >>> gt.grad(lambda x: gt.sum(layer(x, gt.asarray([[1.0]]))))(gt.asarray([0.0])).tolist()
    [1.0]

    Results of `numpy_function` and `py_function` are always saved: Python may give another value
    when it is called again. `gt.saved_for_backward` lists the values that are kept.
    """
    chosen = _as_policy(policy)
    if f is None:
        return functools.partial(checkpoint, policy=chosen)
    if not callable(f):
        raise TypeError(f"checkpoint: {f!r} is not callable. Decorate a function or a method.")

    @functools.wraps(f)
    def recomputed(*args: object, **kwargs: object) -> object:
        recording = state.recording
        start = len(recording.log)
        outputs, structure = flatten(f(*args, **kwargs))
        if state.recording is not recording:  # evaluated inside: there is nothing left to recompute
            return unflatten(structure, outputs)
        tensors = [asarray(output) for output in outputs]
        roots = [tensor.enter(recording) for tensor in tensors]
        inside, sources = _interior(roots, recording.log[start:])
        if not inside:
            return unflatten(structure, tensors)
        saved = chosen.saved(inside)
        again = {node for node in inside if node not in saved}
        # An outer checkpoint returns after those inside it, so its policy overrides theirs.
        recording.values.saved.difference_update(again)
        recording.values.saved.update(saved)
        recording.values.recomputed.difference_update(saved)
        recording.values.recomputed.update(again)
        recording.values.drop(again)
        if chosen.kind == "everything":
            return unflatten(structure, tensors)
        handles = [recording.hold(node, Tensor) for node in sources]
        rule = Checkpointed(chosen)
        results = with_rule(rule, tensors, handles, rule)
        if any(is_expensive(node) for node in again):
            # The backward pass of later ops reads these results: without them it would compute
            # the whole checkpoint once more.
            recording.values.saved.update(result.node for result in results)
        return unflatten(structure, results)

    return recomputed


def _interior(roots: Sequence[Node], recorded: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The recorded nodes that the roots need, and the nodes outside that these read, in order."""
    own = set(recorded)
    needed: set[Node] = set()
    # A PICK is not recorded as an application; it is put right after the op it picks from.
    picks: dict[Node, dict[Node, None]] = {}

    def need(nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node in own:
                needed.add(node)
            elif node.op is PICK and node.inputs[0] in own:
                needed.update((node, node.inputs[0]))
                picks.setdefault(node.inputs[0], {})[node] = None

    need(roots)
    order: list[Node] = []
    for node in reversed(recorded):
        if node in needed:
            order += [*picks.get(node, ()), node]
            need(node.inputs)
    order.reverse()
    inside = set(order)
    read = [parent for node in order for parent in node.inputs]
    sources = dict.fromkeys(node for node in (*roots, *read) if node not in inside)
    return order, list(sources)


def _as_policy(policy: str | Policy) -> Policy:
    if isinstance(policy, Policy):
        return policy
    if policy not in KINDS:
        raise ValueError(
            f"checkpoint: policy {policy!r} is unknown. Use one of {', '.join(map(repr, KINDS))}, "
            "gt.save_only(...) or gt.save_any_except(...)."
        )
    return Policy(policy)


def checkpoint_name(x: Tree, name: str) -> Tree:
    """The same tensors under a name, by which policies of `gt.checkpoint` choose them.

    >>> f = gt.checkpoint(
    ...     lambda x: gt.sin(gt.checkpoint_name(gt.exp(x), "growth")),
    ...     policy=gt.save_only("growth"),
    ... )
    >>> round(float(f(0.0)), 6)
    0.841471
    """
    if type(name) is not str:
        raise TypeError(f"checkpoint_name: the name is {type(name).__name__}. Give a string.")
    leaves, structure = flatten(x)
    return unflatten(structure, [record(NAMED, (leaf,), (name,)) for leaf in leaves])


def save_only(*names: str) -> Policy:
    """The policy that saves the values with these names, and recomputes all others.

    >>> layer = gt.checkpoint(lambda x: gt.sin(x), policy=gt.save_only("attention"))
    >>> float(gt.grad(layer)(0.0))
    1.0
    """
    return Policy("only", _names("save_only", names))


def save_any_except(*names: str) -> Policy:
    """The policy that saves all values but those with these names.

    >>> layer = gt.checkpoint(lambda x: gt.sin(x), policy=gt.save_any_except("large"))
    >>> float(gt.grad(layer)(0.0))
    1.0
    """
    return Policy("except", _names("save_any_except", names))


def _names(function: str, names: tuple[str, ...]) -> frozenset[str]:
    for name in names:
        if type(name) is not str:
            raise TypeError(f"{function}: {name!r} is not a name. Give strings.")
    return frozenset(names)
