"""A sample of killed runs; `make fuzz-checkpoints` makes 200 kills."""

import pytest
from tests.training.storage import kills


@pytest.mark.slow
def test_killed_runs_resume_with_the_same_bits():
    found = kills.run(3, seed=1, steps=25)
    assert found["kills"] >= 3
    assert found["runs that reached the end"] >= 1
    assert found["differences"] == 0
