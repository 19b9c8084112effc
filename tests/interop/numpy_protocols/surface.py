"""Every recorded NumPy function with every parameter, on tensors and on plain arrays.

A call on tensors must give NumPy's value, shape and dtype, or be refused with a sentence that names
a parameter of the call. This prints the counts:

    python -m tests.interop.numpy_protocols.surface --count 5000
"""

import argparse
import itertools
import random
import re
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.interop.numpy_protocols import arguments

import gradtape as gt
from gradtape.interop.numpy_protocols import without_derivative
from gradtape.interop.numpy_protocols.dispatch import FUNCTIONS, _name
from gradtape.interop.numpy_protocols.ufuncs import UFUNCS

SURFACE: dict[str, Any] = {
    _name(function).removeprefix("np."): function
    for function in (*FUNCTIONS, *without_derivative.OF_VALUES, *without_derivative.READ_ARRAYS)
} | {ufunc.__name__: ufunc for ufunc in list(UFUNCS) if hasattr(np, ufunc.__name__)}
# Elements of these are not determined, or they answer with the text of a tensor.
NOT_COMPARED = {"empty_like", "array_repr", "array_str"}
# A refusal of the function itself, or of the dtype of an operand, which is no parameter.
OF_AN_OPERAND = re.compile(
    r"(np\.[\w.]+ is not recorded)|(dtype \w+ (is not accepted|has no))|(has no order)"
    r"|(would drop the imaginary part)|(a complex tensor)|(complex numbers have no sign)"
)
METHODS = ("reduce", "accumulate", "outer")
# What NumPy leaves open is brought into one form first: the order of equal elements, the order of
# different values, the signs of eigenvectors.
ONE_FORM = {
    "partition": lambda found, call: np.sort(np.asarray(found).ravel()),
    "unique_values": lambda found, call: np.sort(np.asarray(found)),
    "linalg.eigh": lambda found, call: [np.asarray(found[0]), np.abs(np.asarray(found[1]))],
}


@dataclass
class Call:
    """One call, with arrays where the tensors go."""

    name: str
    args: tuple
    kwargs: dict
    method: str = ""

    def on(self, convert) -> Any:
        function = SURFACE[self.name]
        function = getattr(function, self.method) if self.method else function
        return function(*convert(self.args), **convert(self.kwargs))

    def __str__(self):
        parts = [_shown(value) for value in self.args]
        parts += [f"{key}={_shown(value)}" for key, value in self.kwargs.items()]
        return f"np.{self.name}{'.' if self.method else ''}{self.method}({', '.join(parts)})"


@dataclass
class Report:
    counts: Counter = field(default_factory=Counter)
    refusals: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)

    def __str__(self):
        words = ("equal", "refused by name", "silently wrong", "refused without naming")
        lines = [f"calls: {sum(self.counts[word] for word in words)}"]
        lines += [f"{word}: {self.counts[word]}" for word in words]
        return "\n".join([*self.wrong, *self.unnamed, *lines])


def _shown(value):
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, (list, tuple)) and any(isinstance(v, np.ndarray) for v in value):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


def tensors(tree):
    """The same arguments with a tensor for every array."""
    if isinstance(tree, np.ndarray):
        return gt.asarray(tree)
    if type(tree) in (list, tuple):
        return type(tree)(map(tensors, tree))
    return {key: tensors(item) for key, item in tree.items()} if type(tree) is dict else tree


def copies(tree):
    if isinstance(tree, np.ndarray):
        return tree.copy()
    if type(tree) in (list, tuple):
        return type(tree)(map(copies, tree))
    return {key: copies(item) for key, item in tree.items()} if type(tree) is dict else tree


def single_calls():
    """Every function with every value of every parameter, by keyword and by position."""
    for name, function in SURFACE.items():
        positional, keywords, defaults = arguments.parameters_of(function)
        for operands in arguments.operands_of(name, function):
            yield Call(name, operands, {})
            for parameter in keywords:
                for value in arguments.VALUES.get(parameter, []):
                    if parameter not in positional[: len(operands)]:
                        yield Call(name, operands, {parameter: value})
            for place, parameter in enumerate(positional[len(operands) :], len(operands)):
                between = tuple(defaults[each] for each in positional[len(operands) : place])
                for value in arguments.VALUES.get(parameter, []):
                    yield Call(name, (*operands, *between, value), {})
        if isinstance(function, np.ufunc):
            yield from _method_calls(name, function)


def _method_calls(name, function):
    for method in METHODS:
        if function.nin != 2 or function.nout != 1 or function.signature:
            continue
        pairs = arguments.PAIRS[:3]
        for operands in pairs if method == "outer" else [pair[:1] for pair in pairs]:
            yield Call(name, operands, {}, method)
            for parameter in arguments.METHOD_PARAMETERS[method]:
                for value in arguments.VALUES[parameter]:
                    yield Call(name, operands, {parameter: value}, method)


def random_calls(seed):
    """Calls with two or three parameters at once, without end."""
    chance = random.Random(seed)
    names = sorted(name for name in SURFACE if arguments.operands_of(name, SURFACE[name]))
    while True:
        name = chance.choice(names)
        function = SURFACE[name]
        operands = chance.choice(arguments.operands_of(name, function))
        positional, keywords, _ = arguments.parameters_of(function)
        free = [
            p for p in keywords if p in arguments.VALUES and p not in positional[: len(operands)]
        ]
        chosen = chance.sample(free, min(len(free), chance.choice((1, 2, 3))))
        yield Call(name, operands, {p: chance.choice(arguments.VALUES[p]) for p in chosen})


def check(call, report):
    """Compare one call, unless NumPy refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want = call.on(copies)
        except Exception:
            report.counts["refused by NumPy"] += 1
            return
        try:
            got = call.on(tensors)
            problem = "" if call.name in NOT_COMPARED else compare(call, got, want)
        except Exception as error:
            refused(call, error, report)
            return
    report.counts["silently wrong" if problem else "equal"] += 1
    if problem:
        report.wrong.append(f"wrong: {call}: {problem}")


def refused(call, error, report):
    text = str(error)
    named = any(f"{key}=" in text for key in _given(call)) or OF_AN_OPERAND.search(text)
    report.counts["refused by name" if named else "refused without naming"] += 1
    report.refusals[f"{call.name}: {text}"] += 1
    if not named:
        report.unnamed.append(f"unnamed: {call}: {type(error).__name__}: {text[:120]}")


def _given(call):
    positional = arguments.parameters_of(SURFACE[call.name])[0]
    return [*positional[: len(call.args)], *call.kwargs]


def compare(call, got, want):
    form = ONE_FORM.get(call.name, lambda found, call: found)
    if call.name == "argsort":
        # The order of equal elements is open, and here it is that of their places.
        axis = call.kwargs.get("axis", call.args[1] if len(call.args) > 1 else -1)
        want = np.argsort(call.args[0], axis=axis, kind="stable")
    return difference(form(got, call), form(want, call))


def difference(got, want):
    """What a result differs in from NumPy's: nothing, or a sentence."""
    if isinstance(want, (list, tuple)):
        if len(got) != len(want):
            return f"{len(got)} results for {len(want)}"
        found = (difference(one, other) for one, other in zip(got, want, strict=True))
        return next(filter(None, found), "")
    if not isinstance(want, (np.ndarray, np.generic)):
        got = got.item() if isinstance(got, gt.Tensor) else got
        return "" if got == want else f"{got!r} for {want!r}"
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape} for {want.shape}"
    if got.dtype != want.dtype and not _documented(got.dtype, want.dtype):
        return f"dtype {got.dtype} for {want.dtype}"
    single = want.dtype in (np.float32, np.complex64, np.float16)
    rtol = 1e-2 if want.dtype == np.float16 else 1e-4 if single else 1e-7
    atol = 1e-5 if single else 1e-10
    close = np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=want.dtype.kind in "fc")
    return "" if close else "other values"


def _documented(got, want):
    """Small integers become the default float dtype here, and a shorter one in NumPy."""
    return got == np.float64 and want in (np.float16, np.float32)


def run(count, seed=0, every=1):
    """The report on calls with one parameter, and on random ones until there are `count`."""
    report = Report()
    for call in itertools.islice(single_calls(), seed % every, None, every):
        check(call, report)
    more = random_calls(seed)
    while sum(report.counts.values()) - report.counts["refused by NumPy"] < count:
        check(next(more), report)
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--refusals", action="store_true", help="list every refusal")
    chosen = parser.parse_args()
    found = run(chosen.count, chosen.seed)
    if chosen.refusals:
        print(*(f"{times} × {text}" for text, times in found.refusals.most_common()), sep="\n")
    print(found)
