"""Random programs with surroundings that change between calls.

A program is the text of a module: numbers, containers, classes, layers and helpers, and a function
that reads some of them. The text is executed several times, in namespaces of their own: for the
function as it is, decorated, eager, and for NumPy alone. Changes are texts, too, and are executed
in all of them.
"""

from __future__ import annotations

import contextlib
import re
import types
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.jit.twins import outcome

import gradtape as gt

SURROUNDINGS = '''
import collections, dataclasses, enum, functools, types
G0, G1, FLAG = 0.5, -0.25, True
ITEMS = [0.1, 0.4, -0.3]
LONG = [0.01] * 40
TABLE = {"a": 0.3, "b": -0.2}
DEEP = {"a": {"b": [{"c": [0.2]}]}}
SEEN = {1, 2}
QUEUE = collections.deque([0.1, 0.2], maxlen=5)
ARRAY = np.array([0.5, -0.5, 0.25])
CONFIG = types.SimpleNamespace(scale=0.7, inner=types.SimpleNamespace(rate=0.2))
@dataclasses.dataclass
class Settings:
    rate: float = 0.3
    def half(self): return self.rate * 0.5
SETTINGS = Settings()
class Mode(enum.Enum):
    ONE = 0.1
    TWO = 0.2
MODE = [Mode.ONE]
Pair = collections.namedtuple("Pair", "first second")
PAIR = [Pair(0.1, 0.2)]
class Layer:
    bias = 0.1
    def __init__(self, rate): self.rate = rate
    def __call__(self, v): return gt.tanh(v * self.rate + self.bias)
    @property
    def double(self): return self.rate * 2.0
class Other(Layer):
    def __call__(self, v): return super().__call__(v) - 0.1
LAYERS = [Layer(0.5), Other(-0.7)]
NAMED = {"in": Layer(0.9)}
class Attributes(dict):
    __getattr__ = dict.__getitem__
ATTRIBUTES = Attributes(rate=0.6)
class Box:
    def __init__(self): self.content = 0.4
    def __getitem__(self, key): return self.content
    def __float__(self): return self.content * 2.0
    def __len__(self): return int(self.content * 10)
    def __bool__(self): return self.content > 0.3
    def __contains__(self, key): return key < self.content
    def __iter__(self): return iter([self.content, self.content])
BOX = Box()
def h0(v): return v * 0.5 + G0
def h1(v, rate=0.3, *, shift=0.1): return gt.sin(h0(v)) * rate + shift
def scaled(factor):
    def inner(v): return v * factor
    return inner
SCALED = scaled(0.8)
PART = functools.partial(h1, rate=0.2)
WRAPPED = [SCALED, h0]
class Model:
    def __init__(self): self.layers, self.gain, self.options = [Layer(0.3)], 1.0, {"shift": 0.1}
    def run(self, v):
        for layer in self.layers: v = layer(v)
        return v * self.gain + self.options["shift"]
MODEL = Model()
VAR = gt.Variable(np.array([0.5, -0.5, 1.0]))
RATE = gt.Variable(np.array(0.2))
TENSOR = [gt.asarray(np.array([0.2, 0.1, -0.3]))]
COUNT, LOG, STATE = [0], [], types.SimpleNamespace(calls=0)
'''  # fmt: skip

# Numbers as a function reads them.
NUMBERS = (
    "G0", "G1", "ITEMS[{i} % len(ITEMS)]", "sum(ITEMS)", "sum(LONG)", "TABLE['a']",
    "TABLE.get('z', 0.3)", "CONFIG.inner.rate", "SETTINGS.rate", "SETTINGS.half()", "Layer.bias",
    "float(ARRAY[{i}])", "len(ITEMS) * 0.1", "(0.5 if FLAG else 0.2)", "k", "k * G0",
    "getattr(CONFIG, 'scale', 0.4)", "getattr(CONFIG, 'late', 0.4)", "max(G1, 0.1)", "QUEUE[0]",
    "DEEP['a']['b'][0]['c'][0]", "MODE[0].value", "PAIR[0].first", "BOX[0]", "float(BOX)",
    "len(BOX) * 0.1", "(0.1 if BOX else 0.6)", "(0.2 if 0.35 in BOX else 0.7)", "sum(BOX)",
    "(0.3 if 7 in SEEN else 0.6)", "LAYERS[0].rate", "LAYERS[-1].double", "ATTRIBUTES.rate",
    "NAMED['in'].rate", "next(iter(TABLE.values()))", "len(LAYERS) * 0.2", "MODEL.gain",
    "sorted(ITEMS)[0]", "dict(TABLE)['b']", "[each * 0.5 for each in ITEMS][0]",
    "(0.1 if isinstance(LAYERS[0], Other) else 0.2)", "float(f'{{G0:.1f}}')",
    "vars(SETTINGS)['rate']",
    "(0.4 if hasattr(SETTINGS, 'extra') else 0.1)", "abs(G1)", "float(np.mean(ARRAY))",
)  # fmt: skip
# Tensors as a function computes them, from a tensor `{v}`, another `{w}` and a number `{n}`.
EXPRESSIONS = (
    "gt.sin({v})", "gt.tanh({v} * {n})", "{v} * {n} + {w}", "gt.where({v} > {n}, {v}, {w})",
    "h0({v})", "h1({v})", "h1({v}, {n})", "LAYERS[{i} % len(LAYERS)]({v})", "MODEL.run({v})",
    "SCALED({v})", "PART({v})", "WRAPPED[{i} % len(WRAPPED)]({v})", "NAMED['in']({v})",
    "{v} + VAR.value", "{v} * RATE.value", "{v} + TENSOR[0]", "{v}[::-1] * {n}", "{v} - ARRAY",
    "{v} * gt.sum({w}) * {n}", "gt.stack([{v}[0], {w}[1] * {n}, {v}[2]])",
    "functools.reduce(lambda s, layer: layer(s), LAYERS, {v})", "(lambda q: q * {n})({v})",
    "sum((layer(q) for layer in LAYERS for q in [{v}]), {w})",
)  # fmt: skip
STATEMENTS = (
    "{v} = {e}",
    "{w} = {e}",
    "for layer in LAYERS: {v} = layer({v})",
    "for name in TABLE: {v} = {v} + TABLE[name] * 0.1",
    "if FLAG: {v} = {e}",
    "if gt.sum({v}) > {n}: {v} = {e}",
    "if BOX: {v} = {e}",
    "for number in ITEMS[:3]: {v} = gt.tanh({v} + number)",
    "try: {v} = {v} * TABLE['z']\n    except KeyError: {v} = {e}",
    "with_ = [{n}, {n}]; {v} = {v} * with_[0] - with_[1]",
    "for shift, layer in zip(ITEMS, LAYERS): {v} = layer({v}) + shift",
    "{v} = {{'a': {e}, 'b': {v}}}['a' if FLAG else 'b']",
)
EFFECTS = (
    "COUNT[0] += 1; {v} = {v} + COUNT[0] * 0.01",
    "LOG.append(len(LOG) % 5)",
    "VAR.assign(gt.tanh({v}) * 0.5)",
    "RATE.assign_add(gt.sum({v}) * 0.001)",
    "TABLE['last'] = 0.5",
    "STATE.calls = STATE.calls + 1",
    "SETTINGS.rate = 0.3",
    "{v} = {v} + GEN.normal((3,)) * 0.1",
)
# Changes of what is outside; `{n}` is a number and `{i}` an index.
CHANGES = (
    "G0 = {n}", "G1 = {n}", "FLAG = not FLAG", "ITEMS[{i} % len(ITEMS)] = {n}", "ITEMS.append({n})",
    "ITEMS = [{n}]", "ITEMS.reverse()", "LONG[33] = {n}", "TABLE['a'] = {n}", "TABLE['z'] = {n}",
    "TABLE.pop('z', None)", "TABLE = {{'b': {n}, 'a': {n}}}", "TABLE['b'] = TABLE.pop('b')",
    "DEEP['a']['b'][0]['c'][0] = {n}", "SEEN ^= {{7}}", "QUEUE.appendleft({n})",
    "ARRAY[{i}] = {n}", "ARRAY = ARRAY * 0.5", "CONFIG.scale = {n}", "CONFIG.late = {n}",
    "CONFIG.inner.rate = {n}", "CONFIG.inner = types.SimpleNamespace(rate={n})",
    "SETTINGS.rate = {n}", "SETTINGS = Settings({n})", "SETTINGS.extra = {n}",
    "Settings.half = lambda self: {n}", "MODE[0] = Mode.TWO", "MODE[0] = Mode.ONE",
    "PAIR[0] = PAIR[0]._replace(first={n})", "Layer.bias = {n}", "LAYERS[0].rate = {n}",
    "LAYERS.append(Layer({n}))", "LAYERS[0] = Other({n})", "LAYERS = LAYERS[::-1]",
    "LAYERS[0].__class__ = Other", "LAYERS[0].bias = {n}", "del LAYERS[2:]",
    "Layer.__call__ = lambda self, v: v * self.rate * {n}", "NAMED['in'] = Layer({n})",
    "Layer.double = property(lambda self: {n})", "Other.double = {n}", "ATTRIBUTES['rate'] = {n}",
    "BOX.content = abs({n})", "Box.__float__ = lambda self: {n}", "BOX = Box()",
    "def h0(v): return v * {n}", "def h0(v): return gt.sin(v) + G1", "h1.__defaults__ = ({n},)",
    "h1.__kwdefaults__['shift'] = {n}", "SCALED = scaled({n})", "PART.keywords['rate'] = {n}",
    "PART = functools.partial(h1, shift={n})", "WRAPPED[0] = lambda v: v - {n}",
    "WRAPPED.append(SCALED)", "MODEL.gain = {n}", "MODEL.options['shift'] = {n}",
    "MODEL.layers.append(Layer({n}))", "MODEL.layers[0].rate = {n}", "MODEL = Model()",
    "MODEL.run = lambda v: v * {n}", "Model.run = lambda self, v: v + self.gain",
    "VAR.assign(np.array([{n}, 0.5, {n}]))", "VAR = gt.Variable(np.array([{n}, 0.1, 0.2]))",
    "RATE.assign(np.array({n}))", "TENSOR[0] = gt.asarray(np.array([{n}, 0.0, 0.1]))",
    "COUNT[0] = 0", "LOG.clear()", "STATE.calls = 5", "abs = lambda _: {n}",
    "globals().pop('abs', None)",
)  # fmt: skip


class NumPyVariable:
    """A variable for NumPy alone."""

    def __init__(self, value: Any) -> None:
        self.value = np.array(value)

    def assign(self, value: Any) -> None:
        self.value = np.array(value)

    def assign_add(self, value: Any) -> None:
        self.value = self.value + value


NUMPY = types.SimpleNamespace(
    sin=np.sin, tanh=np.tanh, where=np.where, sum=np.sum, stack=np.stack,
    asarray=np.asarray, Variable=NumPyVariable,
)  # fmt: skip


class Program:
    """The text of one random program, and what happens to it."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.draws = False
        lines = [self.statement() for _ in range(int(self.rng.integers(1, 6)))]
        if self.rng.random() < 0.3:
            lines.insert(int(self.rng.integers(0, len(lines) + 1)), self.statement(EFFECTS))
        result = self.filled("({v}, gt.tanh({e}), [{n}])")
        body = "\n    ".join(lines)
        self.function = f"def f(x, y, k):\n    a, b = x, y\n    {body}\n    return {result}\n"
        # Numbers come again, so that what is outside comes back, too.
        self.pool = [round(float(each), 2) for each in self.rng.uniform(-1, 1, 4)]
        self.most_changes = int(self.rng.integers(0, 12))

    def number(self) -> str:
        return str(self.rng.choice(NUMBERS)).format(i=int(self.rng.integers(0, 3)))

    def filled(self, template: str) -> str:
        v, w = self.rng.permutation(["a", "b"])
        i = int(self.rng.integers(0, 3))
        expression = str(self.rng.choice(EXPRESSIONS)).format(v=v, w=w, n=self.number(), i=i)
        return template.format(v=v, w=w, n=self.number(), i=i, e=expression)

    def statement(self, kinds: tuple[str, ...] = STATEMENTS) -> str:
        template = str(self.rng.choice(kinds))
        self.draws = self.draws or "GEN" in template
        return self.filled(template)

    def change(self) -> str:
        number, i = float(self.rng.choice(self.pool)), int(self.rng.integers(0, 3))
        return str(self.rng.choice(CHANGES)).format(n=f"({number})", i=i)

    def arguments(self) -> tuple[Any, ...]:
        x, y = self.rng.uniform(-1, 1, (2, 3))
        return x, y, float(self.rng.choice(self.pool))

    def world(self, library: Any) -> dict[str, Any]:
        """A namespace in which the text was executed."""
        space = {"__name__": "a_program", "gt": library, "np": np}
        if library is gt:
            space["GEN"] = gt.random.Generator(3)
        # Without the future imports of this module.
        exec(compile(SURROUNDINGS + self.function, "a_program", "exec", dont_inherit=True), space)
        return space


STATE = "[VAR.value, RATE.value, COUNT, LOG, STATE.calls, SETTINGS.rate, sorted(TABLE)]"


@dataclass
class Findings:
    """What came of programs so far."""

    programs: int = 0
    calls: int = 0
    changes: int = 0
    mismatches: list[str] = field(default_factory=list)
    # Programs some of whose calls ran undecorated, by reason.
    undecorated: Counter[str] = field(default_factory=Counter)


def run_program(seed: int, calls: int, findings: Findings) -> None:
    """Call a random program in all its forms, and compare."""
    program = Program(seed)
    worlds = {name: program.world(gt) for name in ("plain", "decorated", "eager")}
    if not program.draws:
        worlds["NumPy"] = program.world(NUMPY)
    decorated = gt.function(worlds["decorated"]["f"])
    history: list[str] = []
    findings.programs += 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "gt.function: ")
        for number in range(calls):
            if number and program.rng.random() < program.most_changes / calls:
                text = program.change()
                history.append(f"{number}: {text}")
                findings.changes += 1
                for space in worlds.values():
                    outcome(lambda text=text, space=space: exec(text, space))
            arguments = program.arguments()
            found = {}
            for name, space in worlds.items():
                f = decorated if name == "decorated" else space["f"]
                with gt.eager() if name == "eager" else contextlib.nullcontext():
                    convert = np.asarray if name == "NumPy" else gt.asarray
                    found[name] = _seen(f, space, convert, arguments)
            findings.calls += 1
            wrong = [name for name, each in found.items() if not _agree(each, found["plain"])]
            if wrong:
                findings.mismatches.append(
                    f"seed {seed}, call {number}: {wrong}\n{program.function}{history}\n"
                    + "\n".join(f"{name}: {each}" for name, each in found.items())
                )
                return
    for reason in {_kind_of(each.refused) for each in decorated.captured if each.refused}:
        findings.undecorated[reason] += 1


def _seen(f: Any, space: dict[str, Any], convert: Any, arguments: tuple[Any, ...]) -> Any:
    """What a call gave and left, as arrays, or the class of its error."""
    x, y, k = arguments
    try:
        leaves = gt.pytree.flatten((f(convert(x), convert(y), k), eval(STATE, space)))[0]
    except Exception as error:
        return type(error).__name__
    return [np.asarray(each) for each in leaves]


def _agree(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return type(one) is type(other) and one == other
    return len(one) == len(other) and all(
        a.shape == b.shape
        and (
            np.allclose(a, b, rtol=1e-9, atol=1e-11, equal_nan=True)
            if a.dtype.kind == "f"
            else np.array_equal(a, b)
        )
        for a, b in zip(one, other, strict=True)
    )


def _kind_of(reason: str) -> str:
    """A reason without the names, numbers and lines of one program."""
    reason = re.sub(r" (at|in) \S+:\d+", "", reason)
    reason = re.sub(r"(was|from) .+ (and is|to) .+?(,|$)", r"\1 ... \2 ...\3", reason)
    return re.sub(r"a_program\.|\d+", "", reason)[:90]
