"""Tests of functions count captures and replays."""

import pytest

import gradtape as gt


@pytest.fixture(autouse=True, scope="module")
def fresh_table():
    """Begin with an empty table of nodes: one that is full is renewed, and calls captured again."""
    gt.clear_plans()
