"""What a gt.function is captured for: capture, program and static arguments."""

import pytest
from tests.jit.agreement import counted

import gradtape as gt

A = gt.asarray


class TestCapture:
    def test_changes_no_state(self):
        v, generator, t = gt.Variable(1.0), gt.random.Generator(0), A([1.0, 2.0])

        @gt.function
        def f(x):
            v.assign_add(1.0)
            t[0] = x
            return x + v + generator.normal(())

        state = generator.state
        x = A(1.0)
        f.capture(x)
        f.program(x)
        assert float(v) == 1.0
        assert generator.state == state
        assert t.tolist() == [1.0, 2.0]
        again = gt.random.Generator(0)
        assert float(f(x)) == float(x + 2.0 + again.normal(()))
        assert float(v) == 2.0

    def test_runs_as_often_as_a_replay_needs(self):
        f, runs = counted(lambda x: x + 1.0)
        captured = gt.function(f)
        captured.capture(A([1.0, 2.0]))
        assert len(runs) == 2
        for _ in range(2):
            assert captured(A([3.0, 4.0])).tolist() == [4.0, 5.0]
        assert len(runs) == 2


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
