"""A fixture for programs that count kernels."""

import pytest

import gradtape as gt
from gradtape.runtime import tiers


@pytest.fixture
def compiled_at_once(monkeypatch):
    """Plans are compiled when they are built, not when they have proved to be worth it."""
    monkeypatch.setattr(tiers, "MODE", "always")
    gt.clear_plans()
