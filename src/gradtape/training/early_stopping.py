"""EarlyStopping: when to end a training run, and which state to keep."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradtape.libraries import check_exports, tensor_on_array
from gradtape.training.storage.decode import tree_into
from gradtape.training.storage.encode import Snapshot, snapshot
from gradtape.typing import Count, NonNegative

__all__ = ["EarlyStopping"]


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when a number has not improved for `patience` epochs.

    >>> gt.training.EarlyStopping("val_loss", patience=3).patience
    3

    It improves if it falls by more than `min_delta`, or with `mode="max"` rises. `restore_best`
    gives the state of the best epoch back at the end.
    """

    monitor: str = "val_loss"
    patience: Count = 3
    min_delta: NonNegative = 0.0
    mode: str = "min"
    restore_best: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("min", "max"):
            raise ValueError(f"EarlyStopping: mode={self.mode!r} is not 'min' or 'max'.")


class BestEpoch:
    """The best epoch so far. It is saved with checkpoints, so that a resumed run has it."""

    def __init__(self, rule: EarlyStopping | None, state: Any) -> None:
        self.rule, self.state = rule, state
        self.best: float | None = None
        self.waited = 0
        self.kept: Snapshot | None = None

    def stops(self, logs: Mapping[str, float]) -> bool:
        """Check the numbers of an epoch; True if it was the last one."""
        rule = self.rule
        if rule is None:
            return False
        if rule.monitor not in logs:
            raise ValueError(
                f"EarlyStopping: {rule.monitor!r} is not measured. There are {', '.join(logs)}."
            )
        sign = 1.0 if rule.mode == "min" else -1.0
        value = sign * float(logs[rule.monitor])
        if self.best is None or value < self.best - rule.min_delta:
            self.best, self.waited = (math.inf if math.isnan(value) else value), 0
            if rule.restore_best:
                self.kept = snapshot(self.state)
            return False
        self.waited += 1
        return self.waited >= rule.patience

    def restore(self) -> None:
        """Give the state of the best epoch back."""
        kept = self.kept
        if kept is not None:
            arrays = kept.arrays
            tree_into(kept.tree, kept.objects, lambda name, _: arrays[name], self.state)

    # A snapshot is saved as its text and its arrays.

    def saved(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        kept = self.kept
        text = None if kept is None else json.dumps([kept.tree, kept.objects])
        arrays = {} if kept is None else {n: tensor_on_array(a) for n, a in kept.arrays.items()}
        return {"best": self.best, "waited": self.waited, "text": text, "arrays": [arrays]}

    def take(self, saved: Mapping[str, Any]) -> None:
        """Go on with what a checkpoint held."""
        self.best, self.waited = saved["best"], int(saved["waited"])
        if saved["text"] is not None:
            tree, objects = json.loads(saved["text"])
            arrays = {name: array.numpy() for name, array in saved["arrays"][0].items()}
            self.kept = Snapshot(tree, objects, arrays)


check_exports(globals(), __all__)
