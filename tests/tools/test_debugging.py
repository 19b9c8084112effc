"""debug_nans names the first op that made a NaN or an infinity, and the line that recorded it."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import NonFiniteError


def test_forward_op_and_line():
    y = gt.asarray([1.0, -1.0]) * 2.0
    made = r"log made nan in 1 of 2 elements at .*test_debugging"
    with pytest.raises(NonFiniteError, match=made), gt.debug_nans():
        gt.sum(gt.log(y))


def test_backward_op_names_the_forward_one_and_its_line():
    x = gt.asarray([4.0, 0.0])
    made = r"derivative of sqrt, recorded at .*test_debugging.py"
    with pytest.raises(NonFiniteError, match=made), gt.debug_nans():
        gt.grad(lambda x: gt.sum(gt.sqrt(x) * 2.0))(x)


def test_nan_that_came_in_is_told():
    x = gt.asarray([1.0, np.nan])
    told = "An operand was not finite already"
    with pytest.raises(NonFiniteError, match=told), gt.debug_nans():
        gt.sin(x)


def test_infinities_may_be_allowed():
    x = gt.asarray(0.0)
    with gt.debug_nans(infinities=False):
        assert float(gt.log(x)) == -np.inf
    made = "subtract made nan"
    with pytest.raises(NonFiniteError, match=made), gt.debug_nans(infinities=False):
        gt.log(x) - gt.log(x)


def test_finite_programs_run_as_ever_and_the_mode_ends():
    x = gt.Variable([1.0, 2.0])
    with gt.debug_nans():
        with gt.GradientTape() as tape:
            y = gt.sum(x * gt.sin(x))
        slope = tape.gradient(y, x)
    np.testing.assert_allclose(slope.numpy(), np.sin([1, 2]) + [1, 2] * np.cos([1, 2]))
    assert np.isnan(gt.log(gt.asarray(-1.0)).numpy())


def test_inside_functions():
    f = gt.function(lambda x: gt.sqrt(x))
    assert float(f(gt.asarray(4.0))) == 2.0
    with pytest.raises(NonFiniteError, match="sqrt made nan"), gt.debug_nans():
        f(gt.asarray(-4.0))
