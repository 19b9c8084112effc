"""The flame graph: stacks of the program's own lines, added up; their number is bounded."""

import sys

import numpy as np
import pytest

import gradtape as gt
from gradtape.config import FLAME_BOXES, LISTED_STACKS, SAMPLE_PERIOD
from gradtape.ir.origin import SourcePlace
from gradtape.tools.profiler.flame import boxes, seconds_of
from gradtape.tools.profiler.sampler import PYTHON, Sampler

OUTER = SourcePlace("a.py", 1, "<module>")
INNER = SourcePlace("a.py", 2, "f")
OTHER = SourcePlace("a.py", 3, "g")


def test_stacks_with_the_same_lines_share_boxes():
    stacks = {
        (PYTHON, (OUTER, INNER)): 1.0,
        ("recording", (OUTER, INNER)): 2.0,
        (PYTHON, (OUTER, OTHER)): 4.0,
        ("compiling", ()): 0.5,
    }
    found = [(box.place, box.phase, box.seconds, inside) for box, inside in boxes(stacks)]
    assert found == [
        (OUTER, None, 7.0, -1),
        (None, "compiling", 0.5, -1),
        (OTHER, None, 4.0, 0),
        (INNER, None, 3.0, 0),
        (None, "recording", 2.0, 3),
    ]


def test_stacks_have_the_times_of_their_phases():
    stacks = {(PYTHON, (OUTER,)): 1.0, (PYTHON, (INNER,)): 3.0, ("running", (OUTER,)): 0.5}
    found = seconds_of(stacks, {PYTHON: 8.0, "running plans": 5.0, "running": 1.0, "waiting": 9.0})
    assert found == {
        (PYTHON, (OUTER,)): 2.0,
        (PYTHON, (INNER,)): 6.0,
        ("running", (OUTER,)): 6.0,
    }


def test_boxes_are_bounded():
    stacks = {(PYTHON, (OUTER, SourcePlace("a.py", n, "f"))): 1.0 for n in range(900)}
    assert len(boxes(stacks)) == FLAME_BOXES
    stacks = {(PYTHON, (OUTER,)): 1e6, (PYTHON, (INNER,)): 1.0}
    assert [box.place for box, _ in boxes(stacks)] == [OUTER]


def test_stacks_are_bounded():
    sampler = Sampler()
    frame = sys._getframe()
    sampler.stacks = {(PYTHON, (SourcePlace("a.py", n, "f"),)): 0.0 for n in range(LISTED_STACKS)}
    for _ in range(3):
        sampler._sample(0, frame)
    assert len(sampler.stacks) <= LISTED_STACKS + len({phase for phase, _ in sampler.stacks})


@pytest.mark.skipif(not hasattr(__import__("signal"), "setitimer"), reason="there is no timer")
def test_callers_are_in_the_graph_and_what_is_around_the_profile_is_not():
    def inner():
        for _ in range(3000):
            float(gt.sum(gt.sin(gt.asarray(np.ones(4)))))

    def middle():
        inner()

    with gt.profile() as p:
        middle()
    found = p.data["flame"]["boxes"]
    assert found[0]["source"] == "middle()"
    assert found[0]["inside"] == -1
    nested = {(box["source"], found[box["inside"]]["source"]) for box in found if box["file"]}
    assert ("inner()", "middle()") in nested
    assert p.data["flame"]["seconds"] >= SAMPLE_PERIOD
    for box in found:
        assert box["inside"] < 0 or box["seconds"] <= found[box["inside"]]["seconds"] * 1.0001
