"""Interrupts at random moments of training loops; `interrupts.py` runs as many as one likes."""

import os

import pytest
from tests.programs import interrupts


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_random_interrupts_do_no_harm():
    found = interrupts.run(60)
    assert {harm: found[harm] for harm in interrupts.HARM} == dict.fromkeys(interrupts.HARM, 0)
