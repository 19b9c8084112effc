"""A few problems of the fuzzer of derivatives; `make fuzz-derivatives` runs thousands."""

import numpy as np
import pytest
from tests.programs import derivatives

import gradtape as gt


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_all_ways_agree():
    found = derivatives.run(range(7, 27))
    assert not found.mismatches, "\n".join(found.mismatches)
    assert len(found.counts) > 15
    assert sum(found.counts.values()) > 300


def test_a_wrong_derivative_is_found(monkeypatch):
    @gt.custom_gradient
    def wrong(x):
        return gt.sin(x), lambda dy: dy * (gt.cos(x) + 1e-4)

    made = derivatives.Problem("wrong", lambda x: [wrong(x)], [np.array([0.3, 0.8])], 1)
    monkeypatch.setattr(derivatives, "problem", lambda number: made)
    found = derivatives.run([0])
    assert any("forward = differences" in text for text in found.mismatches)
