"""Errors of scans and loops name the argument and say what to do."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import DtypeError, NoValueError, ShapeError

START = np.array([0.5, -0.25, 1.5])


class TestErrors:
    def test_shape_of_a_leaf_changes(self):
        with pytest.raises(ShapeError, match=r"carry\['b'\] is float64\[2\] going in"):
            gt.scan(
                lambda c, _: ({"a": c["a"], "b": gt.concat([c["b"], c["b"]])}, None),
                {"a": 1.0, "b": np.ones(2)},
                length=2,
            )

    def test_dtype_of_a_leaf_changes(self):
        with pytest.raises(DtypeError, match=r"carry\[1\] is int64\[2\] going in and float64\[2\]"):
            gt.scan(lambda c, _: ((c[0], c[1] * 0.5), None), (1.0, np.array([1, 2])), length=2)

    def test_structure_changes(self):
        with pytest.raises(ValueError, match="given a tuple with 2 tensors to carry"):
            gt.scan(lambda c, _: (c[0], None), (1.0, 2.0), length=2)

    def test_lengths_differ(self):
        with pytest.raises(ShapeError, match=r"xs\[1\] has 3 elements along axis 0"):
            gt.scan(lambda c, x: (c, None), 0.0, (np.zeros(2), np.zeros(3)))
        with pytest.raises(ShapeError, match="length is 5"):
            gt.scan(lambda c, x: (c, None), 0.0, np.zeros(2), length=5)
        with pytest.raises(ValueError, match="Pass length"):
            gt.scan(lambda c, x: (c, None), 0.0)

    def test_no_pair(self):
        with pytest.raises(TypeError, match="not a tuple of two"):
            gt.scan(lambda c, x: c, 0.0, np.zeros(2))

    def test_looking_at_a_value(self):
        with pytest.raises(NoValueError, match=r"inside scan has no value.*gt\.cond"):
            gt.scan(lambda c, x: (c if c > 0 else -c, None), 0.0, np.zeros(2))

    def test_assigning_in_a_condition(self):
        v = gt.Variable(1.0, name="counter")
        with pytest.raises(NoValueError, match="counter would be assigned inside the condition"):
            gt.while_loop(lambda x: v.assign_add(1.0) < 5.0, lambda x: x, 0.0)

    def test_branches_differ(self):
        with pytest.raises(ShapeError, match=r"result is float64\[3\] from false_fn"):
            gt.cond(True, lambda x: gt.sum(x), lambda x: x, START)
        with pytest.raises(ValueError, match="one structure"):
            gt.switch(0, [lambda x: x, lambda x: (x, x)], START)
        with pytest.raises(ShapeError, match="not a single truth value"):
            gt.cond(START > 0, lambda x: x, lambda x: -x, START)

    def test_condition_of_a_loop(self):
        with pytest.raises(ShapeError, match="Reduce it"):
            gt.while_loop(lambda x: x < 3.0, lambda x: x + 1.0, START)

    def test_failing_inside_a_body_fails_on_its_line(self):
        with pytest.raises(np.linalg.LinAlgError):
            gt.scan(lambda c, x: (gt.linalg.cholesky(x), None), np.eye(2), -np.ones((2, 2, 2)))

    def test_tensor_that_leaves_a_body(self):
        left = []
        gt.scan(lambda c, x: (left.append(c) or c, None), 0.0, np.zeros(2))
        with pytest.raises(NoValueError, match="after it returned"):
            left[0].numpy()
