"""Every parameter that is a number, a flag or an axis refuses every senseless value."""

from collections import Counter

import pytest
from tests.contract.bad_input import bad_calls, call_sites
from tests.contract.bad_input.bad_calls import BadCall
from tests.contract.bad_input.bad_values import VALUES
from tests.contract.bad_input.call_sites import Site
from tests.contract.bad_input.legal_values import LEGAL
from tests.contract.bad_input.parameter_kinds import kind_of
from tests.contract.bad_input.sweep import excused_calls, sweep


@pytest.fixture(scope="module")
def examples():
    return call_sites.sources()


@pytest.fixture(scope="module")
def sites(examples):
    return list(call_sites.sites(examples))


@pytest.mark.slow
def test_senseless_values_are_refused(sites, examples, tmp_path, monkeypatch):
    # Examples may write files.
    monkeypatch.chdir(tmp_path)
    found = list(sweep(sites, examples))
    assert not [(str(call), vars(each)) for call, each in found if each.verdict != "ours"]
    names = Counter(call.site.name for call, _ in found)
    assert len(names) > 500
    assert len(found) > 9000
    # A few tell what follows from the value: "fill: shape (-3, 2) has a negative length".
    told = [_tells(call, outcome.text) for call, outcome in found if not _of_a_function(call)]
    assert sum(told) * 100 >= 98 * len(told)


def _of_a_function(call):
    """Whether a function is exchanged: "grad: None is not callable" needs no name of it."""
    return kind_of(*call.parameter(call.edits[0][0]), call.site.name) == "function"


def _tells(call, text):
    """Whether an error names the parameter and the value."""
    ((place, value),) = call.edits
    shown = repr(VALUES[value]())
    return call.parameter(place)[0] in text and shown in text


@pytest.mark.slow
def test_legal_values_are_taken(sites, examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    taken = Counter()
    for row, call in excused_calls(sites):
        outcome = bad_calls.make(call, call_sites.compiled(examples[call.site.example]))
        taken[row] += outcome.verdict == "accepted"
    assert not [row for row in LEGAL if not taken[row]]


def test_a_function_that_checks_nothing_is_found():
    """The sweep itself: of a function that takes everything, every call is silent."""
    site = Site("own.train", "own", 0, 0, (), (("patience", "int", "KEYWORD_ONLY"),))
    call = BadCall(site, (("patience", "-3"),))
    outcome = bad_calls.attempt(call, lambda patience: patience, (), {})
    assert outcome.verdict == "silent"
    assert "patience (count) = -3" in outcome.text


@pytest.mark.parametrize(
    ("name", "annotation", "kind"),
    [
        ("patience", "int", "count"), ("units", "Size", "size"),
        ("epsilon", "float", "not negative"),
        ("axis", "Axis | None", "axis"), ("strides", "Any", "sizes"), ("seed", "int", "integer"),
        ("new_axis_mask", "int", "integer"), ("momentum", "float | None", "probability"),
        ("decay_steps", "float", "positive"), ("use_bias", "", "flag"), ("x", "Any", "anything"),
    ],
)  # fmt: skip
def test_kinds_follow_from_names(name, annotation, kind):
    assert kind_of(name, annotation, "gradtape.something") == kind
