"""Nothing that changes outside a decorated function is missed."""

import pytest
from tests.functions.outside.all_scenarios import SCENARIOS, run_scenario

import gradtape as gt
from gradtape.codegen.cpython import switch

MODE = switch.MODE


@pytest.mark.parametrize("name", SCENARIOS)
def test_change_outside(name):
    """So many calls before the first change that they go through native code."""
    assert run_scenario(SCENARIOS[name], before=40).wrong == []


@pytest.mark.parametrize("name", [name for name in SCENARIOS if not name.startswith("model_")])
def test_change_outside_with_the_native_recorder(name):
    gt.set_recorder("native")
    try:
        assert run_scenario(SCENARIOS[name], before=2, after=2).wrong == []
    finally:
        gt.set_recorder(MODE)


def test_there_are_enough_scenarios():
    assert len(SCENARIOS) >= 400
