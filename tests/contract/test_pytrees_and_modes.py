"""CONTRACT: nests, copies and modes."""

import copy
import dataclasses
import pickle
from typing import NamedTuple

import numpy as np
import pytest

import gradtape as gt


class Point(NamedTuple):
    a: object
    b: object


@dataclasses.dataclass
class Pair:
    a: object
    b: object


class TestAux:
    def test_has_aux(self):
        def f(x):
            return x * x, {"seen": x + 1.0}

        g, aux = gt.grad(f, has_aux=True)(3.0)
        assert float(g) == 6.0
        assert float(aux["seen"]) == 4.0
        (value, aux), g = gt.value_and_grad(f, has_aux=True)(3.0)
        assert float(value) == 9.0

    def test_pytrees(self):
        for nest in (
            Point(gt.asarray(2.0), gt.asarray(3.0)),
            Pair(gt.asarray(2.0), gt.asarray(3.0)),
        ):
            g = gt.grad(lambda p: p.a * p.b)(nest)
            assert type(g) is type(nest)
            assert (float(g.a), float(g.b)) == (3.0, 2.0)

    def test_deepcopy_copy_and_pickle(self):
        x = gt.asarray([1.0, 2.0])
        v = gt.Variable([1.0, 2.0], name="v", trainable=False)
        for twin in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x * 1.0))):
            twin += 1.0
            assert twin.tolist() == [2.0, 3.0]
            assert x.tolist() == [1.0, 2.0]
        for twin in (copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
            assert (twin.name, twin.trainable) == ("v", False)
            twin.assign_add([1.0, 1.0])
            assert v.numpy().tolist() == [1.0, 2.0]

    def test_default_dtype(self):
        try:
            gt.set_default_dtype(gt.float32)
            assert gt.asarray([1.0]).dtype == gt.float32
            assert gt.asarray(2.0).dtype == gt.float32
            assert gt.zeros(2).dtype == gt.float32
            assert (gt.asarray([1, 2]) / 2).dtype == gt.float32
            assert gt.asarray(np.array([1.0])).dtype == gt.float64
        finally:
            gt.set_default_dtype(gt.float64)
        with pytest.raises(TypeError, match="int32"):
            gt.set_default_dtype("int32")

    def test_eager_mode(self):
        with gt.eager():
            x = gt.asarray(2.0)
            before = gt.counters().plans_run
            y = x * x
            assert gt.counters().plans_run == before + 1
            assert y.computed is not None
            assert float(gt.grad(gt.grad(lambda x: x**4))(2.0)) == 48.0

    def test_deterministic_mode(self):
        with gt.deterministic():
            assert gt.is_deterministic()
            with pytest.raises(RuntimeError, match="seed"):
                gt.random.normal((2,))
            a = gt.random.normal((2,), seed=1).numpy()
        np.testing.assert_array_equal(a, gt.random.normal((2,), seed=1).numpy())
