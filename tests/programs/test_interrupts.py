"""Interrupts at random moments of training loops; `interrupts.py` runs as many as one likes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_random_interrupts_do_no_harm():
    # In a process of its own: packages that the tests use have Python callbacks of the garbage
    # collector, where an interrupt would be lost.
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.interrupts", "--count", "80"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[2],
    )
    assert "0 lost, 0 half steps, 0 broken variables, 0 stuck tapes" in done.stdout, done.stderr
    assert done.returncode == 0
