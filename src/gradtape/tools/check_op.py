"""Checks of an op's declaration at its samples; see `gt.extend.check`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradtape.autodiff.batch import batch_all
from gradtape.autodiff.modes import forward
from gradtape.autodiff.sparse.detect import detect
from gradtape.compiler.passes import optimize
from gradtape.dtypes import as_dtype
from gradtape.errors import UndefinedRuleError
from gradtape.ir import Node, Op, Spec, Undefined, apply, outputs, placeholder, spec
from gradtape.ir.program import program
from gradtape.ops.elementwise.arithmetic import where
from gradtape.ops.families.samples import Sample
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor.tensor import Tensor, asarray
from gradtape.testing import check_gradients
from gradtape.trace import Value, record

# The names of an op's params, or names with defaults.
ParamNames: TypeAlias = Sequence[str] | Mapping[str, object]
# A rule or kernel that the user writes, with arguments as the table of `gt.extend.op` says.
UserRule: TypeAlias = Callable[..., Any]
# The default of a param that has none.
REQUIRED = object()


def check_callables(name: str, rules: Mapping[str, object]) -> None:
    """Raise a TypeError for a rule that is given and is not a function."""
    for word, rule in rules.items():
        if rule is not None and not isinstance(rule, Undefined) and not callable(rule):
            raise TypeError(f"extend: {name}: {word}= is {type(rule).__name__}. Give a function.")


def names_and_defaults(name: str, params: ParamNames) -> tuple[tuple[str, ...], dict[str, object]]:
    """The names of params, and the default of each, which is REQUIRED where there is none."""
    names = tuple(params)
    for word in names:
        if not isinstance(word, str) or not word.isidentifier():
            raise ValueError(
                f"extend: {name}: {word!r} among params is not a name. Use letters, digits and _."
            )
    defaults = params if isinstance(params, Mapping) else dict.fromkeys(names, REQUIRED)
    return names, dict(defaults)


def arity_of(name: str, arity: int | None, partials: Sequence[UserRule] | None) -> int:
    """The number of operands: the arity given, or that of the partials, or one."""
    if partials is not None and arity is not None and len(partials) != arity:
        raise ValueError(
            f"extend: {name}: {len(partials)} partials for {arity} operands. Give one for each."
        )
    count = len(partials) if partials else (1 if arity is None else arity)
    if count < 1:
        raise ValueError(f"extend: {name}: arity {count} is less than 1. Give it an operand.")
    return count


def known_rule(
    name: str, what: str, given: UserRule | Undefined | str, known: Mapping[str, UserRule]
) -> UserRule | Undefined:
    """A rule that is given, or known by a word."""
    if not isinstance(given, str) and (callable(given) or isinstance(given, Undefined)):
        return given
    if given not in known:
        raise ValueError(
            f"extend: {name}: {what}={given!r} is unknown. Use a function, or one of "
            f"{', '.join(map(repr, known))}."
        )
    return known[given]


def as_specs(name: str, given: Any) -> Spec | tuple[Spec, ...]:
    """The result of a spec rule, as a Spec or a tuple of them."""
    if isinstance(given, Spec):
        return given
    if isinstance(given, list) or (isinstance(given, tuple) and given and _is_spec(given[0])):
        return tuple(_as_spec(name, one) for one in given)
    return _as_spec(name, given)


def _as_spec(name: str, given: Any) -> Spec:
    if isinstance(given, Spec):
        return given
    if _is_spec(given):
        shape, dtype = given
        return spec(tuple(int(n) for n in shape), as_dtype(dtype))
    raise TypeError(
        f"extend: the spec of {name} gave {given!r}. Return a Spec, a (shape, dtype) pair, or a "
        "list of them for several results."
    )


def _is_spec(given: object) -> bool:
    return isinstance(given, Spec) or (
        isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], (tuple, list))
    )


def checked_kernel(
    name: str, kernel: UserRule, rule: Callable[..., Spec | tuple[Spec, ...]], cast: bool
) -> Callable[..., np.ndarray | tuple[np.ndarray, ...]]:
    """The kernel, with a check that its results are as the spec says."""

    def checked(*given: object, **params: object) -> np.ndarray | tuple[np.ndarray, ...]:
        arrays = tuple(map(np.asarray, given))
        expected = rule(*[spec(one.shape, one.dtype) for one in arrays], **params)
        several = isinstance(expected, tuple)
        found = kernel(*arrays, **params)
        parts = tuple(found) if several and isinstance(found, (tuple, list)) else (found,)
        specs = expected if isinstance(expected, tuple) else (expected,)
        if len(parts) != len(specs):
            raise ValueError(
                f"{name}: its kernel gave {len(parts)} results, its spec says {len(specs)}. "
                "Return a tuple of as many."
            )
        results = []
        for part, of in zip(parts, specs, strict=True):
            result = np.asarray(part)
            if cast and result.dtype.kind == of.dtype.kind:
                result = result.astype(of.dtype, copy=False)
            if (result.shape, result.dtype) != (of.shape, of.dtype):
                raise ValueError(
                    f"{name}: its kernel gave {result.dtype} of shape {result.shape}, where its "
                    f"spec says {of.dtype} of shape {of.shape}."
                )
            results.append(result)
        return tuple(results) if several else results[0]

    return checked


DOUBLE = (np.dtype("float64"), np.dtype("complex128"))
# Examples in a batch.
SIZES = (3, 1)
_Values: TypeAlias = dict[Node, np.ndarray]


def check_op(op: Op, order: int = 2) -> str:
    """Run all checks at all samples; the names of those that apply, as text."""
    samples = op.samples()
    if not samples:
        raise ValueError(
            f"check: {op.name} has no samples. Declare it with samples=, a list of extend.Sample."
        )
    done: dict[str, None] = {}
    for number, sample in enumerate(samples):
        case = Case(op, sample)
        for what, test in CHECKS.items():
            try:
                if test(case, order):
                    done[what] = None
            except AssertionError as error:
                raise AssertionError(f"{op.name}, sample {number}, {what}: {error}") from None
            except UndefinedRuleError:
                raise
            except Exception as error:
                raise AssertionError(
                    f"{op.name}, sample {number}, {what}: {type(error).__name__}: {error}"
                ) from error
    count = f"{len(samples)} {'sample' if len(samples) == 1 else 'samples'}"
    return f"{op.name}: {count}: {', '.join(done)}"


class Case:
    """An op at one of its samples."""

    def __init__(self, op: Op, sample: Sample) -> None:
        self.op = op
        self.sample = sample
        # Contiguous, as recorded values are.
        self.inputs = tuple(np.array(array, order="C") for array in sample.inputs)
        self.params = tuple(sample.params[name] for name in op.params)
        self.nodes = tuple(placeholder(spec(one.shape, one.dtype)) for one in self.inputs)
        self.values: _Values = dict(zip(self.nodes, self.inputs, strict=True))

    @property
    def inexact(self) -> list[int]:
        return [at for at, array in enumerate(self.inputs) if array.dtype.kind in "fc"]

    @property
    def is_differentiable(self) -> bool:
        defined = not isinstance(self.op.vjp, Undefined) and not isinstance(self.op.jvp, Undefined)
        return defined and bool(self.inexact) and any(one.spec.inexact for one in self.results())

    def results(self, nodes: Sequence[Node] | None = None) -> tuple[Node, ...]:
        root = apply(self.op, tuple(self.nodes if nodes is None else nodes), self.params)
        return outputs(root) if isinstance(root.spec, tuple) else (root,)

    def call(self, *given: Tensor) -> Any:
        """The op on `given` in place of its inexact inputs."""
        operands = [asarray(array) for array in self.inputs]
        for position, operand in zip(self.inexact, given, strict=True):
            operands[position] = operand
        return record(self.op, tuple(operands), self.params)

    def sources(self) -> list[Tensor]:
        return [asarray(self.inputs[position]) for position in self.inexact]


def evaluated(nodes: Sequence[Node], values: _Values) -> list[np.ndarray]:
    """The values of nodes, by the numpy plan."""
    found = program(nodes)
    # A numpy plan gives arrays, or NumPy's scalars, which have the same attributes.
    contents: Any = NumpyPlan(found).run([values[node] for node in found.inputs])
    return contents


def compare(got: np.ndarray, expected: np.ndarray, rounding: float = 1e-9) -> None:
    """Assert equal shapes and dtypes, and equal values up to rounding."""
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype), (
        f"got {got.dtype} of shape {got.shape}, expected {expected.dtype} of shape {expected.shape}"
    )
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
        return
    single = got.dtype in (np.dtype("float32"), np.dtype("complex64"))
    tolerance = 2e-4 if single else rounding
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def check_spec(case: Case, order: int) -> bool:
    """The kernel gives the shapes and dtypes that the spec promises."""
    op = case.op
    promoted = case.nodes if op.promote is None else op.promote(case.nodes)
    specs = [node.spec for node in promoted]
    expected = op.spec(*specs, **case.sample.params)
    arrays = [array.astype(of.dtype) for array, of in zip(case.inputs, specs, strict=True)]
    with np.errstate(all="ignore"):
        found = op.numpy(*arrays, **case.sample.params)
    several = isinstance(expected, tuple)
    for array, of in zip(
        found if several else (found,), expected if several else (expected,), strict=True
    ):
        assert (array.shape, array.dtype) == (of.shape, of.dtype), (
            f"the kernel gave {array.dtype} of shape {array.shape}, the spec says {of}"
        )
    return True


def check_recorded(case: Case, order: int) -> bool:
    """Recording and evaluating gives the values of the kernel."""
    recorded = record(case.op, tuple(map(asarray, case.inputs)), case.params)
    tensors = recorded if isinstance(recorded, tuple) else (recorded,)
    for tensor, array in zip(tensors, evaluated(case.results(), case.values), strict=True):
        compare(tensor.numpy(), array)
    return True


def check_derivatives(case: Case, order: int) -> bool:
    """Both modes agree with finite differences and with each other."""
    highest = min(order, case.sample.order)
    double = all(case.inputs[at].dtype in DOUBLE for at in case.inexact)
    if not case.is_differentiable or highest < 1 or not double:
        return False
    check_gradients(case.call, *case.sources(), order=highest)
    return True


def check_mask(case: Case, order: int) -> bool:
    """A `where` after the op passes all of the gradient, or none of it."""
    results = case.results()
    if not case.is_differentiable or len(results) > 1 or case.sample.order < 1:
        return False
    sources = case.sources()
    of = results[0].spec
    # All different, so that no gradient vanishes by cancellation.
    weights = np.linspace(0.5, 1.5, of.size).reshape(of.shape).astype(of.dtype)

    def gradients(chosen: bool | None) -> list[np.ndarray | None]:
        with GradientTape() as tape:
            tape.watch(sources)
            found = case.call(*sources)
            if chosen is not None:
                found = where(asarray(np.full(of.shape, chosen)), found, 0)
        slopes: list[Tensor | None] = tape.gradient(  # type: ignore[assignment]
            found, sources, output_gradients=asarray(weights)
        )
        return [None if slope is None else slope.numpy() for slope in slopes]

    rows = zip(gradients(None), gradients(True), gradients(False), strict=True)
    for plain, everything, nothing in rows:
        if plain is not None:
            assert everything is not None, "no gradient passes where the branch is taken"
            compare(everything, plain, 1e-6)
            lost = nothing is None or not nothing.any()
            assert lost, "a gradient passes where the branch is not taken"
    return True


def check_batch(case: Case, order: int) -> bool:
    """A batch is a loop over its examples, whichever operands are batched."""
    if isinstance(case.op.batch, Undefined):
        return False
    for flags, size in itertools.product(subsets(len(case.inputs)), SIZES):
        columns = [
            [varied(array, number) if flag else array for number in range(size)]
            for array, flag in zip(case.inputs, flags, strict=True)
        ]
        batched, values = {}, dict(case.values)
        for node, column, flag in zip(case.nodes, columns, flags, strict=True):
            if flag:
                batched[node] = placeholder(spec((size, *node.shape), node.dtype))
                values[batched[node]] = np.stack(column)
        results = case.results()
        found = evaluated(batch_all(results, batched, size), values)
        rows = [
            evaluated(results, dict(zip(case.nodes, row, strict=True)))
            for row in zip(*columns, strict=True)
        ]
        for got, *expected in zip(found, *rows, strict=True):
            compare(got, np.stack(expected))
    return True


def subsets(count: int) -> list[tuple[bool, ...]]:
    """Choices of batched operands: all of up to three; of more, all together and each alone."""
    if count <= 3:
        return [flags for flags in itertools.product((True, False), repeat=count) if any(flags)]
    return [(True,) * count, *[tuple(i == j for j in range(count)) for i in range(count)]]


def varied(array: np.ndarray, number: int) -> np.ndarray:
    """Another example, so near to the sample that the op is defined there, too."""
    if number == 0 or array.dtype.kind not in "fc":
        return array
    return (array * array.dtype.type(1 + 0.01 * number)).astype(array.dtype)


def check_sparsity(case: Case, order: int) -> bool:
    """The pattern contains the numeric Jacobian."""
    double = all(case.inputs[at].dtype in DOUBLE for at in case.inexact)
    if not case.is_differentiable or case.sample.order < 1 or not double:
        return False
    targets = [node for node in case.results() if node.spec.inexact]
    known = {n: a for n, a in case.values.items() if a.dtype.kind in "biu"}
    for position in case.inexact:
        source = case.nodes[position]
        patterns = detect(targets, source, known)
        for pattern, numeric in zip(patterns, jacobians(case, targets, source), strict=True):
            missing = numeric & ~pattern.toarray()
            assert not missing.any(), (
                f"operand {position}: the pattern lacks entry {np.argwhere(missing)[0].tolist()}, "
                "which is not zero"
            )
    return True


def jacobians(case: Case, targets: Sequence[Node], source: Node) -> Iterator[np.ndarray]:
    """A mask of the derivatives that are not zero, by forward mode along one element at a time."""
    tangent = placeholder(source.spec)
    pushed = forward(targets, [source], [tangent])
    for target, node in zip(targets, pushed, strict=True):
        found = np.zeros((target.size, source.size), bool)
        for element in range(source.size if node is not None else 0):
            for scale in (1.0, 1.0j) if source.dtype.kind == "c" else (1.0,):
                direction = np.zeros(source.size, source.dtype)
                direction[element] = scale
                values = {**case.values, tangent: direction.reshape(source.shape)}
                (column,) = evaluated([node], values)  # type: ignore[list-item]
                found[:, element] |= np.reshape(column, -1) != 0
        yield found


def check_compiled(case: Case, order: int) -> bool:
    """The compiled plan gives the values and first derivatives of the numpy plan."""
    # At the first call: it loads the compiler.
    from gradtape.runtime.compiled_plan import CompiledPlan

    nodes = list(case.results())
    if case.is_differentiable:
        targets = [node for node in nodes if node.spec.inexact]
        sources = [case.nodes[at] for at in case.inexact]
        with contextlib.suppress(UndefinedRuleError):
            nodes += [n for n in forward(targets, sources, sources) if n is not None]
    found = optimize(program(nodes))
    inputs = [Value(case.values[node], node.spec) for node in found.inputs]
    expected: Any = NumpyPlan(found).run(inputs)
    contents = CompiledPlan(found).run(inputs)
    for content, want, node in zip(contents, expected, found.outputs, strict=True):
        compare(Value(content, node.spec).array, want)
    return True


CHECKS: dict[str, Callable[[Case, int], bool]] = {
    "spec": check_spec,
    "kernel": check_recorded,
    "derivatives": check_derivatives,
    "mask": check_mask,
    "batch": check_batch,
    "sparsity": check_sparsity,
    "compiled": check_compiled,
}
