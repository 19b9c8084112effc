"""gt.function(input_signature=...) and get_concrete_function: what calls must agree with."""

import collections

import numpy as np
import pytest
from tests.jit.agreement import counted

import gradtape as gt

A = gt.asarray
Spec = gt.TensorSpec


class TestTensorSpec:
    def test_what_it_says(self):
        spec = Spec([None, 2], "float32", name="rows")
        assert spec.shape == (None, 2)
        assert spec.dtype == np.float32
        assert spec.name == "rows"
        assert repr(spec) == "TensorSpec(shape=(None, 2), dtype=float32, name='rows')"
        assert Spec(3).shape == (3,)
        assert Spec(()).dtype == gt.float64
        assert Spec(None).shape is None

    def test_equality_and_hash(self):
        assert Spec((None, 2)) == Spec([None, 2], gt.float64)
        assert Spec((None, 2)) != Spec((3, 2))
        assert len({Spec((1,)), Spec((1,)), Spec((2,))}) == 2

    def test_compatibility(self):
        assert Spec((None, 2)).is_compatible_with(gt.ones((7, 2)))
        assert Spec(None).is_compatible_with(gt.ones((7, 2)))
        assert not Spec((None, 2)).is_compatible_with(gt.ones((7, 3)))
        assert not Spec((None,)).is_compatible_with(gt.ones((7, 3)))
        assert not Spec((2,)).is_compatible_with(gt.ones(2, dtype=gt.float32))
        assert Spec((2, None)).is_compatible_with(Spec((None, 3)))

    def test_it_is_no_container(self):
        assert gt.pytree.flatten([Spec((1,))])[0] == [Spec((1,))]


def total(**signature):
    inner, runs = counted(lambda x: gt.sum(x))
    inner.__name__ = "total"
    return gt.function(inner, **signature), runs


class TestInputSignature:
    def test_calls_that_agree(self):
        f, _ = total(input_signature=[Spec((None, 2))])
        for given in (gt.ones((3, 2)), np.ones((1, 2)), [[1.0, 2.0]], [[1, 2]], gt.zeros((0, 2))):
            for _ in range(2):
                assert float(f(given)) == np.asarray(given).sum()

    def test_host_memory_takes_the_dtype(self):
        f = gt.function(lambda x: x * 2, input_signature=[Spec((), gt.float32)])
        for given in (1.0, 2, np.float64(3.0), np.array(4, np.int8)):
            assert f(given).dtype == np.float32

    @pytest.mark.parametrize(
        ("given", "error", "match"),
        [
            (gt.ones((3, 3)), ValueError, r"total: args\[0\] has shape \(3, 3\).*\(None, 2\)"),
            (gt.ones(2), ValueError, r"has shape \(2,\)"),
            (np.ones((2, 2, 2)), ValueError, r"has shape \(2, 2, 2\)"),
            (gt.ones((3, 2), dtype=gt.float32), TypeError, "dtype float32.*asks for float64"),
            (gt.ones((3, 2), dtype=gt.int64), TypeError, "dtype int64.*asks for float64"),
            (np.ones((3, 2), complex), TypeError, "dtype complex128.*asks for float64"),
            ("text", TypeError, "is str"),
            (None, TypeError, "is NoneType"),
        ],
    )
    def test_calls_that_do_not(self, given, error, match):
        f, runs = total(input_signature=[Spec((None, 2))])
        with pytest.raises(error, match=match):
            f(given)
        assert not runs
        assert float(f(gt.ones((1, 2)))) == 2.0

    def test_under_a_tape_too(self):
        f, _ = total(input_signature=[Spec((None, 2))])
        x = gt.Variable(np.ones((3, 2)))
        with gt.GradientTape() as tape:
            y = f(x)
        assert tape.gradient(y, x).shape == (3, 2)
        with gt.GradientTape(), pytest.raises(ValueError, match="has shape"):
            f(gt.ones(3))

    def test_counts(self):
        f = gt.function(lambda x, y: x + y, input_signature=[Spec(()), Spec(())])
        assert float(f(1.0, 2.0)) == 3.0
        assert float(f(y=1.0, x=2.0)) == 3.0
        with pytest.raises(ValueError, match="y is missing"):
            f(1.0)
        with pytest.raises(ValueError, match="2 entries"):
            f(1.0, 2.0, 3.0)

    def test_parameters_with_defaults_need_no_spec(self):
        f = gt.function(lambda x, scale=2.0: x * scale, input_signature=[Spec(())])
        assert float(f(3.0)) == 6.0
        assert float(f(4.0)) == 8.0

    def test_nests(self):
        specs = [{"a": Spec((None,), gt.float32), "b": [Spec(None, gt.float32)]}]
        f = gt.function(lambda d: d["a"] + d["b"][0], input_signature=specs)
        assert f({"b": [3.0], "a": [1.0, 2.0]}).tolist() == [4.0, 5.0]
        with pytest.raises(ValueError, match=r"d\['a'\] has shape \(\)"):
            f({"a": 1.0, "b": [3.0]})
        with pytest.raises(ValueError, match="expected 2 parts"):
            f({"a": [1.0]})

    def test_methods(self):
        class Model:
            w = gt.Variable(2.0)

            @gt.function(input_signature=[Spec((None,))])
            def f(self, x):
                return gt.sum(x) * self.w

        model = Model()
        assert float(model.f([1.0, 2.0])) == 6.0
        assert float(Model.f(model, [1.0])) == 2.0
        with pytest.raises(ValueError, match="f: x has shape"):
            model.f(1.0)
        with pytest.raises(ValueError, match="x is missing"):
            model.f()

    def test_anything_with_a_shape_and_a_dtype_is_a_spec(self):
        Like = collections.namedtuple("Like", "shape dtype")
        for spec in (Like((None,), "float64"), gt.ones(3).spec, gt.tf.TensorSpec([3], "float64")):
            f = gt.function(lambda x: x * 2.0, input_signature=[spec])
            assert f([1.0, 2.0, 3.0]).tolist() == [2.0, 4.0, 6.0]
            with pytest.raises(ValueError, match="has shape"):
                f([[1.0]])

    def test_variables_stay_variables(self):
        f = gt.function(lambda v: v.assign_add(1.0).value, input_signature=[Spec(())])
        v = gt.Variable(1.0)
        for n in range(3):
            assert float(f(v)) == 2.0 + n


class TestConcrete:
    def test_of_values(self):
        f, runs = counted(lambda x: x + 1.0)
        concrete = gt.function(f).get_concrete_function(A([1.0, 2.0]))
        assert len(runs) == 2
        for _ in range(2):
            assert concrete(A([3.0, 4.0])).tolist() == [4.0, 5.0]
        assert len(runs) == 2
        with pytest.raises(ValueError, match=r"has shape \(3,\)"):
            concrete(A([1.0, 2.0, 3.0]))
        with pytest.raises(TypeError, match="dtype int64"):
            concrete(A([1, 2]))

    def test_of_specs(self):
        f, runs = counted(lambda x: gt.sum(x))
        concrete = gt.function(f).get_concrete_function(Spec((None, 2)))
        assert not runs
        assert float(concrete(np.ones((3, 2)))) == 6.0
        assert float(concrete(np.ones((4, 2)))) == 8.0
        with pytest.raises(ValueError, match="has shape"):
            concrete(np.ones(3))

    def test_of_the_input_signature(self):
        f = gt.function(lambda x: x * 2.0, input_signature=[Spec((2,))])
        concrete = f.get_concrete_function()
        assert concrete([1.0, 2.0]).tolist() == [2.0, 4.0]
        assert concrete.structured_input_signature == ((Spec((2,)),), {})

    def test_asking_changes_no_state(self):
        v, generator, t = gt.Variable(1.0), gt.random.Generator(0), A([1.0, 2.0])

        @gt.function
        def f(x):
            v.assign_add(1.0)
            t[0] = x
            return x + v + generator.normal(())

        state = generator.state
        x = A(1.0)
        f.get_concrete_function(x)
        f.program(x)
        assert float(v) == 1.0
        assert generator.state == state
        assert t.tolist() == [1.0, 2.0]
        again = gt.random.Generator(0)
        assert float(f(x)) == float(x + 2.0 + again.normal(()))
        assert float(v) == 2.0

    def test_values_that_are_static(self):
        f = gt.function(lambda x, how, times=2: x * times if how == "up" else x)
        up = f.get_concrete_function(Spec(()), "up")
        assert float(up(3.0)) == 6.0
        assert float(up(3.0, "up", 2)) == 6.0
        with pytest.raises(ValueError, match=r"how is 'down'.*made for 'up'"):
            up(3.0, "down")
        with pytest.raises(TypeError, match="fewer arguments"):
            up()
        with pytest.raises(TypeError, match="more arguments"):
            up(3.0, "up", 2, 5)

    def test_floats_are_inputs(self):
        concrete = gt.function(lambda x, r: x * r).get_concrete_function(Spec(()), 2.0)
        assert float(concrete(3.0, 5.0)) == 15.0

    def test_nests(self):
        f = gt.function(lambda p: p["a"] * p["b"][0])
        concrete = f.get_concrete_function({"a": Spec(()), "b": [Spec((2,))]})
        assert concrete({"a": 2.0, "b": [[1.0, 2.0]]}).tolist() == [2.0, 4.0]
        with pytest.raises(ValueError, match=r"p\['b'\]\[0\] has shape"):
            concrete({"a": 2.0, "b": [1.0]})


class TestProgram:
    def test_what_computes_the_results(self):
        text = str(gt.function(lambda x, y: gt.sin(x) * y).program(A(1.0), 2.0))
        assert "sin" in text
        assert "multiply" in text

    def test_of_the_path_taken(self):
        f = gt.function(lambda x: gt.exp(gt.sin(x)) if gt.sum(x) > 0.0 else gt.cos(x))
        up, down = str(f.program(A([1.0]))), str(f.program(A([-1.0])))
        assert "exp" in up
        assert "sin" in up
        assert "cos" not in up
        assert "cos" in down

    def test_of_assignments_and_gradients(self):
        w = gt.Variable([1.0, 2.0])

        @gt.function
        def step(x):
            with gt.GradientTape() as tape:
                loss = gt.sum(gt.tanh(w * x))
            w.assign_sub(tape.gradient(loss, w))
            return loss

        program = step.program(A([1.0, 2.0]))
        assert len(program.outputs) == 2
        assert "tanh" in str(program)
        assert w.numpy().tolist() == [1.0, 2.0]


class TestOptions:
    def test_static_arguments_by_number(self):
        f = gt.function(lambda x, n, how="a": x * n if how == "a" else x, static_argnums=(1, -1))
        assert [float(f(gt.asarray(1.0), n)) for n in (1, 2, 3, 4, 5)] == [1.0, 2.0, 3.0, 4.0, 5.0]
        assert f.captures == 5
        with pytest.raises(ValueError, match=r"static_argnums 3 .* \['x', 'n'\]. Count"):
            gt.function(lambda x, n: x, static_argnums=3)

    @pytest.mark.parametrize("signature", [3, [3], [gt.ones(2)], ["float"]])
    def test_what_is_no_spec(self, signature):
        with pytest.raises(TypeError, match=r"input_signature has .* Give a list of gt.TensorSpec"):
            gt.function(lambda x: x, input_signature=signature)
