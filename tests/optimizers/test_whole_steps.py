"""A step that fails leaves variables and slots as they were."""

import numpy as np
import pytest

import gradtape as gt


class Picky(gt.optimizers.SGD):
    """Refuses the second variable."""

    def update(self, gradient, weight, slots, *rates):
        if weight.shape == (2,):
            raise ArithmeticError("no")
        return super().update(gradient, weight, slots, *rates)


@pytest.mark.parametrize("decorated", [False, True])
def test_an_error_undoes_the_whole_step(decorated):
    variables = [gt.Variable(np.ones(3)), gt.Variable(np.ones(2))]
    optimizer = Picky(0.1, momentum=0.5)

    def step():
        optimizer.apply_gradients([(v.value, v) for v in variables])

    with pytest.raises(ArithmeticError, match="no"):
        (gt.function(step) if decorated else step)()
    assert [v.tolist() for v in variables] == [[1.0] * 3, [1.0] * 2]
    assert int(optimizer.iterations) == 0
    slots = optimizer.named_variables()[2:]
    assert all(not np.any(slot.numpy()) for _, slot in slots)


def test_a_change_that_fails_in_a_replay_does_not_update_twice():
    v = gt.Variable(0.0)

    @gt.function
    def step(x):
        v.assign_add(1.0)
        x += 1.0
        return v.value

    array = np.zeros(3)
    for count in range(1, 4):
        step(array)
        assert (float(v), array.tolist()) == (count, [count] * 3)
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        step(frozen)
    assert float(v) in (3.0, 4.0)
