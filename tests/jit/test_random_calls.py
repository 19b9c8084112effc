"""gt.function: calls with nests made at random give what they give undecorated; seeds are fixed.

Each function is called often enough for native calls, with tapes, other threads and assignments in
between. GRADTAPE_FUZZ sets how many functions.
"""

import gc
import os
import random
import threading
import warnings

import numpy as np
import pytest

import gradtape as gt

COUNT = int(os.environ.get("GRADTAPE_FUZZ", "30"))
A = gt.asarray
SPECS = [((), "float64"), ((3,), "float64"), ((2, 3), "float32"), ((0, 3), "float64"),
         ((3,), "int64"), ((1,), "bool"), ((2,), "complex128")]  # fmt: skip


def template(chance, depth=0):
    """What a nest of arguments is made by: a function of the number of the call."""
    kind = chance.choice(["tensor"] * 4 + ["float", "static", "list", "tuple", "dict"])
    if kind == "tensor" or depth > 2:
        shape, dtype = chance.choice(SPECS)
        base = np.arange(np.prod(shape)).reshape(shape) * 0.37
        return lambda number: A((base + 0.1 * number).astype(dtype))
    if kind == "float":
        return lambda number: 0.1 * number
    if kind == "static":
        thing = chance.choice([None, True, "text", 3, b"x"])
        return lambda number: thing
    parts = [template(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == "dict":
        return lambda number: {key: part(number) for key, part in zip("abc", parts, strict=False)}
    make = list if kind == "list" else tuple
    return lambda number: make(part(number) for part in parts)


class Model:
    def __init__(self):
        self.v, self.w, self.scale = gt.Variable(1.5), gt.Variable([0.5, 1.0, 2.0]), 2.0

    def state(self):
        return [self.v.numpy().tolist(), self.w.numpy().tolist()]


def computed(x, how, k):
    if isinstance(x, float):
        return x * k if how % 2 else x
    if not isinstance(x, gt.Tensor) or how % 3 == 0:
        return x
    if x.dtype.kind == "b":
        return gt.logical_not(x)
    return gt.sin(x) * k if x.dtype.kind == "f" and how % 2 else x * x


def function_of(chance):
    how, style, updates = chance.randrange(100), chance.randrange(4), chance.random() < 0.5

    def f(self, nest, more):
        leaves, structure = gt.pytree.flatten(nest)
        out = [computed(x, how + place, self.scale) for place, x in enumerate(leaves)]
        if updates:
            self.w.assign(self.w * 0.9 + self.scale)
        if isinstance(more, float) and more > 5.0:
            raise ValueError(f"too much: {more}")
        if style == 0:
            return gt.pytree.unflatten(structure, out)
        if style == 1:
            return (*out, more, nest, "constant", None, *out)
        return {"out": out, "v": self.v.value, "w": self.w.value} if style == 2 else [*out, *out]

    return f


def shown(f, *args):
    """What a call gives as plain data, with which tensors are arguments or the same."""
    try:
        leaves, structure = gt.pytree.flatten(f(*args))
    except ValueError as error:
        return str(error)
    known = {id(x): ("given", n) for n, x in enumerate(gt.pytree.flatten(args)[0])}
    found = [structure]
    for place, x in enumerate(leaves):
        if isinstance(x, gt.Tensor):
            found += [known.setdefault(id(x), place), str(x.dtype), x.shape]
            found.append(x.numpy().astype("complex64").round(3).tolist())
        else:
            found.append((type(x), x))
    return found


def elsewhere(call):
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("seed", range(COUNT))
def test_calls_are_as_undecorated(seed):
    chance = random.Random(seed)
    python = function_of(chance)
    kind = type("Kind", (Model,), {"run": gt.function(python)})
    one, two = kind(), Model()
    kinds = [(template(chance), template(chance, 3)) for _ in range(chance.randrange(1, 4))]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "gt.function: ")
        for number in range(70):
            nest, more = chance.choice(kinds)
            given, like = ([nest(number), more(number)] for _ in range(2))
            expected = shown(lambda *args: python(two, *args), *like)
            event = chance.random()
            if event < 0.05:
                with gt.GradientTape():
                    found = shown(one.run, *given)
            elif event < 0.08:
                found = elsewhere(lambda given=given: shown(one.run, *given))
            else:
                found = shown(one.run, *given)
            assert found == expected, number
            assert np.allclose(one.state()[1], two.state()[1])
            if event > 0.97:
                one.scale = two.scale = chance.choice([2.0, 3.0])
            elif event > 0.94:
                gc.collect()
            elif event > 0.90:
                for model in (one, two):
                    model.w.assign([1.0, 2.0, number])
