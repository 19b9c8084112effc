"""Reads of one value: none asks for an attribute that tensors do not have, which would be slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gradtape as gt
from gradtape import suggestions


@pytest.mark.parametrize("read", [bool, int, float, complex])
@pytest.mark.parametrize("make", [gt.asarray, gt.Variable])
def test_reads_ask_for_no_missing_attribute(
    read: Callable[[Any], Any], make: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def noted(missing: Any, found: object, kind: type) -> None:
        asked.append(missing.name)
        raise AttributeError(missing.name)

    monkeypatch.setattr(suggestions._Missing, "__get__", noted)
    assert read(make(1.0)) == read(1.0)
    assert read(gt.sin(make(0.0)) + 1.0) == read(1.0)
    assert not asked
    assert not hasattr(make(1.0), "detach")
    assert asked == ["detach"]
