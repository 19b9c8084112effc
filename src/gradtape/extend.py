"""extend: declare ops from outside, with the same rules as the library's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

# Nothing declared here may take the name of an op of theirs.
from gradtape import (
    fft as _fft,  # noqa: F401
    linalg as _linalg,  # noqa: F401
    random as _random,  # noqa: F401
)
from gradtape.annotated_kinds import Size
from gradtape.argument_checks import check_exports
from gradtape.autodiff.modes import forward
from gradtape.caches import remembered
from gradtape.compiler.passes import optimize
from gradtape.dtypes import as_dtype
from gradtape.ir.node import Node, placeholder
from gradtape.ir.op import REGISTRY, Op, Undefined, declare
from gradtape.ir.op_facts import View
from gradtape.ir.program import Program, program
from gradtape.ir.spec import Spec, spec as make_spec
from gradtape.ir.walk import substitute
from gradtape.ops.families import batching, independence, sparsity
from gradtape.ops.families.casting import KINDS, promotion
from gradtape.ops.families.define import mask_broadcast
from gradtape.ops.families.elementwise import jvp_of, samples_of, sparsity_of, spec_of, vjp_of
from gradtape.ops.families.samples import Sample
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.suggestions import namespace as _namespace
from gradtape.tools.check_op import (
    REQUIRED,
    ParamNames,
    UserRule,
    arity_of,
    as_specs,
    check_callables,
    check_op,
    checked_kernel,
    known_rule,
    names_and_defaults,
)
from gradtape.trace.record import binary_function, record, unary_function

if TYPE_CHECKING:
    from gradtape.dtypes import DTypeLike

    # Samples, or the arrays of each.
    Samples: TypeAlias = Sequence[Sample | Sequence[np.ndarray]]

__all__ = ["Sample", "Undefined", "check", "elementwise", "op", "spec"]

# Names declared here, which may be declared again with replace=True.
_declared: set[str] = set()

BATCH = {
    "leading": batching.leading,
    "broadcasting": batching.broadcasting,
    "loop": batching.one_by_one,
}
SPARSITY = {
    "elements": sparsity.elements,
    "dense": sparsity.dense,
    "moved": sparsity.moved,
    "matrices": sparsity.matrices,
    "nothing": sparsity.nothing,
}
Recorder: TypeAlias = Callable[..., Any]


def elementwise(
    name: str,
    numpy: UserRule | None = None,
    partials: Sequence[UserRule] | None = None,
    *,
    arity: Size | None = None,
    params: ParamNames = (),
    promote: str = "float",
    accepts: str = "any",
    result: str = "same",
    domains: Sequence[tuple[float, float]] = ((-2.0, 2.0),),
    dtypes: Sequence[str] = ("float64",),
    sample_params: Sequence[Mapping[str, object]] = ({},),
    composition: UserRule | None = None,
    expensive: bool = False,
    doc: str = "",
    replace: bool = False,
) -> Recorder:
    """Declare an op that works element by element, and return the function that records it.

    >>> haversine = gt.extend.elementwise(
    ...     "haversine",
    ...     numpy=lambda x: np.sin(x / 2) ** 2,
    ...     partials=[lambda y, x: 0.5 * gt.sin(x)],
    ... )
    >>> float(gt.grad(haversine)(np.pi / 2))
    0.5
    >>> print(gt.extend.check(haversine))
    haversine: 3 samples: spec, kernel, derivatives, mask, batch, sparsity, compiled

    - `numpy(*arrays, **params)` is the kernel.
    - `partials` has one function for each operand: it gets the result and the operands, and gives
      the partial derivative, written with gradtape's functions and operators. For complex numbers
      it is f′(x) itself.
    - `params` are names, or names with defaults; the function takes them as keyword arguments, and
      the rules get them.
    - `promote` is `"float"` or `"same"`, `accepts` and `result` are as in docs/extending.md.
    - `domains` says where samples for `gt.extend.check` may lie, `dtypes` which dtypes they have
      and `sample_params` with which params.
    - `composition(*operands, **params)` writes the op with other ops. The compiler then fuses it;
      without a kernel or partials of its own, the op has those of the composition.
    """
    names, defaults = _declaration("elementwise", name, params, replace)
    count = arity_of(name, arity, partials)
    given = {f"partials[{n}]": rule for n, rule in enumerate(partials or ())}
    check_callables(name, {**given, "numpy": numpy, "composition": composition})
    kernel = _kernel_by(composition) if numpy is None and composition else numpy
    if kernel is None:
        raise TypeError(f"extend: {name} has no kernel. Give numpy=, or composition=.")
    _check_word(name, "promote", promote, ("float", "same"))
    _check_word(name, "accepts", accepts, tuple(KINDS))
    _check_word(name, "result", result, ("same", "bool", "real"))
    if partials:
        rules: dict[str, Any] = {"jvp": jvp_of(partials), "vjp": vjp_of(partials)}
    elif result == "bool":
        rules = _undefined(f"{name} gives no floating-point result")
    else:
        remedy = "extend.elementwise partials=, one function for each operand"
        rules = _derivative(name, composition, remedy)
    spec_rule = spec_of(name, count, result)
    ranges = tuple(domains) * count if len(domains) == 1 else tuple(domains)
    found = Op(
        name,
        "elementwise",
        spec=spec_rule,
        numpy=checked_kernel(name, kernel, spec_rule, cast=True),
        batch=batching.broadcasting,
        mask=mask_broadcast,
        promote=promotion(name, promote, accepts),
        params=names,
        sparsity=sparsity_of(partials) if partials else sparsity.elements,
        samples=lambda: samples_of(name, count, ranges, dtypes, _filled(sample_params, defaults)),
        expensive=expensive,
        doc=doc,
        composition=composition,
        examples=independence.elementwise,
        **rules,
    )
    if names or count > 2:
        return _recorder(found, defaults, count)
    return _entered(found, (unary_function if count == 1 else binary_function)(found))


def op(
    name: str,
    *,
    spec: UserRule,
    numpy: UserRule,
    jvp: UserRule | Undefined | None = None,
    vjp: UserRule | Undefined | None = None,
    batch: UserRule | Undefined | str = "loop",
    sparsity: UserRule | Undefined | str = "dense",
    mask: UserRule | None = None,
    promote: UserRule | str | None = None,
    params: ParamNames = (),
    samples: Samples | Callable[[], Samples] = (),
    composition: UserRule | None = None,
    expensive: bool = True,
    may_fail: bool = False,
    view: bool = False,
    opaque: bool = False,
    doc: str = "",
    replace: bool = False,
) -> Recorder:
    """Declare an op of any kind, and return the function that records it.

    >>> shares = gt.extend.op(
    ...     "shares",
    ...     spec=lambda x: x,
    ...     numpy=lambda x: x / np.sum(x, axis=-1, keepdims=True),
    ...     jvp=lambda tangents, y, inputs: (
    ...         (tangents[0] - y * gt.sum(tangents[0], axis=-1, keepdims=True))
    ...         / gt.sum(inputs[0], axis=-1, keepdims=True)
    ...     ),
    ...     batch="leading",
    ...     samples=[gt.extend.Sample((np.array([[1.0, 2.0], [3.0, 5.0]]),))],
    ... )
    >>> shares(gt.asarray([1.0, 3.0])).tolist()
    [0.25, 0.75]
    >>> print(gt.extend.check(shares))
    shares: 1 sample: spec, kernel, derivatives, mask, batch, sparsity, compiled

    | rule | called as |
    |---|---|
    | spec | `spec(*specs, **params)` → Spec, (shape, dtype), or a list for several results |
    | numpy | `numpy(*arrays, **params)` → array, or a tuple |
    | jvp | `jvp(tangents, y, inputs, **params)` → tangent; tangents are None where zero |
    | vjp | `vjp(index, g, y, inputs, **params)` → cotangent of input `index`, or None |
    | batch | `"leading"`, `"broadcasting"`, `"loop"`, or a rule as in ops/families/batching.py |
    | sparsity | `"elements"`, `"dense"`, `"moved"`, `"matrices"`, `"nothing"`, or a function |
    | mask | `mask(index, mask, y, inputs, **params)` → where a cotangent is nonzero |
    | promote | `"float"`, `"same"`, or `promote(inputs)` → the inputs, cast |
    | samples | a list of `Sample`, or a function that gives one |

    One of `jvp` and `vjp` is enough. They and `composition` are written with gradtape's functions
    and operators. `expensive` results are kept for the backward pass; an op that `may_fail` on
    values is computed on the line that records it; an `opaque` one is never shared.
    """
    names, defaults = _declaration("op", name, params, replace)
    rules: dict[str, Any] = {"jvp": jvp, "vjp": vjp}
    given = {"spec": spec, "numpy": numpy, "mask": mask, "composition": composition}
    check_callables(name, {**given, **rules})
    if numpy is None or spec is None:
        raise TypeError(f"extend: {name} needs spec= and numpy=.")
    if jvp is None and vjp is None:
        remedy = "extend.op jvp= or vjp=; one is enough, the other follows"
        rules = _derivative(name, composition, remedy)

    @remembered(256)
    def spec_rule(*specs: Spec, **given: object) -> Spec | tuple[Spec, ...]:
        return as_specs(name, spec(*specs, **given))

    found = Op(
        name,
        "extension",
        spec=spec_rule,
        numpy=checked_kernel(name, numpy, spec_rule, cast=False),
        batch=known_rule(name, "batch", batch, BATCH),
        mask=mask,
        promote=_promotion(name, promote),
        params=names,
        sparsity=known_rule(name, "sparsity", sparsity, SPARSITY),
        samples=lambda: _samples(samples, defaults),
        expensive=expensive,
        may_fail=may_fail,
        view=View.OTHER if view else None,
        opaque=opaque,
        doc=doc,
        composition=composition,
        **rules,
    )
    return _recorder(found, defaults, None)


def spec(shape: Sequence[int], dtype: DTypeLike) -> Spec:
    """A shape and a dtype, for the `spec` rule of an op.

    >>> gt.extend.spec((2, 3), "float32")
    float32[2,3]
    """
    return make_spec(tuple(int(n) for n in shape), as_dtype(dtype))


def check(function: Recorder | Op, order: int = 2) -> str:
    """Test an op at its samples like the library's own; raise AssertionError where a rule is wrong.

    >>> wrong = gt.extend.elementwise(
    ...     "wrong_cube", numpy=lambda x: x**3, partials=[lambda y, x: 2.0 * x * x]
    ... )
    >>> try:
    ...     gt.extend.check(wrong)
    ... except AssertionError as error:
    ...     print(str(error).partition(":")[0])
    wrong_cube, sample 0, derivatives

    The kernel gives what the spec promises; both modes agree with finite differences and with each
    other up to `order`; a `where` above the op gives all of a gradient or none; a batch is a loop
    over its examples; the sparsity rule contains the numeric Jacobian; compiled is like NumPy.
    """
    declared: Any = getattr(function, "op", function)
    return check_op(declared, order)


# Checks of what the user declares, and the rules that follow from it.


def _declaration(
    where: str, name: str, params: ParamNames, replace: bool
) -> tuple[tuple[str, ...], dict[str, object]]:
    """The names and defaults of params, if an op of this name can be declared."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"extend.{where}: {name!r} is not a name. Use letters, digits and _.")
    if name in REGISTRY and not (replace and name in _declared):
        whose = "declared before" if name in _declared else "one of gradtape's own"
        remedy = ", or say replace=True" if name in _declared else ""
        raise ValueError(f"extend.{where}: {name!r} is {whose}. Choose another name{remedy}.")
    return names_and_defaults(name, params)


def _check_word(name: str, what: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise ValueError(f"extend: {name}: {what}={word!r} is unknown. Use one of {known}.")


def _promotion(name: str, promote: UserRule | str | None) -> Any:
    known = {word: promotion(name, word, "any") for word in ("float", "same")}
    return None if promote is None else known_rule(name, "promote", promote, known)


def _derivative(name: str, composition: UserRule | None, remedy: str) -> dict[str, Any]:
    """The derivative rules of an op that was declared without any."""
    if composition is not None:
        return {"jvp": _jvp_by(composition)}
    return _undefined(f"{name} was declared without a derivative. Give {remedy}")


def _undefined(why: str) -> dict[str, Any]:
    return dict.fromkeys(("jvp", "vjp"), Undefined(why))


def _jvp_by(composition: UserRule) -> UserRule:
    """Forward mode through the composition."""

    def jvp(
        tangents: Sequence[Node | None], y: Node, inputs: tuple[Node, ...], **params: object
    ) -> Node | None:
        # Two operands may be one node, so each is derived by a placeholder of its own.
        ends = [placeholder(x.spec) for x in inputs]
        root = composition(*ends, **params)
        moving = [(end, t) for end, t in zip(ends, tangents, strict=True) if t is not None]
        (pushed,) = forward([root], [end for end, _ in moving], [t for _, t in moving])
        if pushed is None:
            return None
        return substitute([pushed], dict(zip(ends, inputs, strict=True)))[0]

    return jvp


def _kernel_by(composition: UserRule) -> UserRule:
    """The composition as a kernel: a numpy plan of its ops."""

    @remembered(256)
    def plan(
        specs: tuple[Spec, ...], params: tuple[tuple[str, object], ...]
    ) -> tuple[NumpyPlan, list[int]]:
        ends = [placeholder(of) for of in specs]
        found: Program = optimize(program([composition(*ends, **dict(params))]))
        return NumpyPlan(found), [ends.index(node) for node in found.inputs]

    def kernel(*arrays: np.ndarray, **params: object) -> object:
        specs = tuple(make_spec(one.shape, one.dtype) for one in arrays)
        made, positions = plan(specs, tuple(params.items()))
        return made.run([arrays[at] for at in positions])[0]

    return kernel


def _samples(
    given: Samples | Callable[[], Samples], defaults: Mapping[str, object]
) -> list[Sample]:
    listed = given() if callable(given) else given
    found = []
    for one in listed:
        sample = one if isinstance(one, Sample) else Sample(tuple(one))
        (params,) = _filled([sample.params], defaults)
        arrays = tuple(np.asarray(array) for array in sample.inputs)
        found.append(Sample(arrays, params, sample.order))
    return found


def _filled(
    rows: Sequence[Mapping[str, object]], defaults: Mapping[str, object]
) -> list[dict[str, Any]]:
    """Params of samples, with defaults where a sample has none."""
    return [{n: _frozen(row.get(n, default)) for n, default in defaults.items()} for row in rows]


def _frozen(value: object) -> object:
    """A param as part of the structure: a list as a tuple, a NumPy number as a Python number."""
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(one) for one in value)
    return value.item() if isinstance(value, np.generic) else value


def _recorder(found: Op, defaults: Mapping[str, object], arity: Size | None) -> Recorder:
    """The function that records an op: operands by position, params by name."""
    name = found.name

    def function(*operands: object, **given: object) -> Any:
        if arity is not None and len(operands) != arity:
            raise TypeError(f"{name}: {len(operands)} operands, expected {arity}.")
        unknown = [word for word in given if word not in defaults]
        missing = [w for w, value in defaults.items() if value is REQUIRED and w not in given]
        if unknown or missing:
            what = f"unknown {unknown}" if unknown else f"missing {missing}"
            raise TypeError(f"{name}: params: {what}. It takes {list(defaults)} by keyword.")
        params = tuple(_frozen(given.get(word, value)) for word, value in defaults.items())
        return record(found, operands, params)

    return _entered(found, function)


def _entered(found: Op, function: Any) -> Recorder:
    """The recorder of an op that is now in the registry, in the place of one declared before."""
    REGISTRY.pop(found.name, None)
    declare(found)
    _declared.add(found.name)
    function.op = found
    function.__name__ = function.__qualname__ = found.name
    function.__doc__ = found.doc or f"The op {found.name}."
    return function


check_exports(globals(), ("Sample", "check", "elementwise", "op", "spec"))

if not TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
