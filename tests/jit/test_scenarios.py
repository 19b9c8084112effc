"""What changes outside a decorated function is seen: by guards at once, by checks in any case."""

import pytest
from tests.jit.outside.all_scenarios import SCENARIOS, run_scenario
from tests.jit.outside.scenarios import HIDDEN
from tests.native_parts import needs_native

import gradtape as gt
from gradtape.compiler.cpython import switch

MODE = switch.MODE
SEEN = [name for name in SCENARIOS if name not in HIDDEN]


@pytest.mark.parametrize("name", SEEN)
def test_guards_see_it_at_once(name):
    """So many calls before the first change that they go through native code."""
    assert run_scenario(SCENARIOS[name], before=40).wrong == []


@needs_native
@pytest.mark.parametrize("name", [name for name in SEEN if not name.startswith("model_")])
def test_guards_see_it_with_the_native_recorder(name):
    gt.set_recorder("native")
    try:
        assert run_scenario(SCENARIOS[name], before=2, after=2).wrong == []
    finally:
        gt.set_recorder(MODE)


@pytest.mark.parametrize("name", SCENARIOS)
def test_checks_see_it(name):
    assert run_scenario(SCENARIOS[name], before=5, recheck=1).wrong == []


def test_few_are_hidden():
    assert len(SCENARIOS) >= 440
    assert set(SCENARIOS) >= HIDDEN
    assert len(HIDDEN) <= 0.1 * len(SCENARIOS)
