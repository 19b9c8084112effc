"""CONTRACT: the values that the seeds' examples must give."""

import numpy as np
import pytest

import gradtape as gt


class TestSeeds:
    def test_gradients_are_sums(self):
        x = gt.asarray([2.0])
        with gt.GradientTape():
            assert gt.gradients([x**2, x**3], x)[0].tolist() == [16.0]

    def test_chain_is_finite_away_from_zero(self):
        x = gt.asarray(np.linspace(-3.0, 3.0, 101)[np.linspace(-3.0, 3.0, 101) != 0])
        g = gt.grad(lambda x: gt.sum(gt.sin(gt.exp(gt.log(gt.abs(x))))))(x).numpy()
        assert np.isfinite(g).all()
        np.testing.assert_allclose(g, np.cos(np.abs(x.numpy())) * np.sign(x.numpy()), rtol=1e-12)

    def test_where_exact(self):
        x = gt.asarray([-1.0, 0.0, 2.0, 1000.0, -1000.0])
        g = gt.grad(lambda x: gt.sum(gt.where(x > 0.0, x**2, gt.exp(x))))(x).numpy()
        np.testing.assert_allclose(g, [np.exp(-1.0), 1.0, 4.0, 2000.0, 0.0])

    def test_appended_to_a_list(self):
        x = gt.Variable(1.0)
        terms = []
        with gt.GradientTape() as tape:
            terms.append(x * x)
            z = x + gt.sum(gt.stack(terms))
        assert float(tape.gradient(z, x)) == 3.0

    def test_sum_of_a_list(self):
        x = gt.Variable(1.0)
        terms = []
        with gt.GradientTape() as tape:
            terms.append(x * x)
            z = x + gt.sum(terms)
        assert float(tape.gradient(z, x)) == 3.0

    @pytest.mark.parametrize(("start", "slope"), [(2.0, 5.0), (0.5, 2.0)])
    def test_branch_on_the_value(self, start, slope):
        x = gt.Variable(start)
        with gt.GradientTape() as tape:
            y = x * x if x > 1.0 else x + 1.0
            z = y + x
        assert float(tape.gradient(z, x)) == slope

    def test_stack_sums(self):
        x = gt.Variable(2.0)
        with gt.GradientTape() as tape:
            y = gt.stack([x**2, x**3])
        assert float(tape.gradient(y, x)) == 16.0

    def test_preprocessing_unwatched_data_costs_the_backward_pass_nothing(self):
        w = gt.Variable(np.ones((3, 2)))
        data = gt.asarray(np.arange(6.0).reshape(2, 3))

        def step(inside):
            if not inside:
                x = gt.clip(data / 255.0, 0.0, 1.0)
            with gt.GradientTape() as tape:
                if inside:
                    x = gt.clip(data / 255.0, 0.0, 1.0)
                loss = gt.sum((x @ w) ** 2)
            before = gt.counters().ops_run
            g = tape.gradient(loss, w).numpy()
            return g, gt.counters().ops_run - before

        # The first runs of a program are NumPy's, and compiled programs have fewer ops.
        for _ in range(3):
            (g1, ops1), (g2, ops2) = step(True), step(False)
        np.testing.assert_array_equal(g1, g2)
        assert ops1 == ops2
