"""gt.function: random programs whose surroundings change do what they do undecorated.

GRADTAPE_FUZZ sets how many; `make fuzz-functions` runs thousands.
"""

import os

import pytest
from tests.jit.outside.random_programs import CHANGES, Findings, Program, run_program

import gradtape as gt

COUNT = int(os.environ.get("GRADTAPE_FUZZ", "30"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(COUNT))
def test_random_programs(seed):
    findings = Findings()
    run_program(seed, 40, findings)
    assert findings.mismatches == []


def test_changes_are_valid():
    """Every kind of change can be made: a misspelt one would change nothing."""
    for change in CHANGES:
        exec(change.format(n="(0.5)", i=1), Program(0).world(gt))
