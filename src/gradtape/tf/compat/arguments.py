"""Arguments under the names that TensorFlow 1 had for them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

# Functions that had other names for arguments, and what those are called now.
_REDUCTIONS = (
    "count_nonzero", "reduce_all", "reduce_any", "reduce_logsumexp", "reduce_max", "reduce_mean",
    "reduce_min", "reduce_prod", "reduce_sum",
)  # fmt: skip
OLD_ARGUMENTS: dict[str, dict[str, str]] = {
    **{name: {"keep_dims": "keepdims", "reduction_indices": "axis"} for name in _REDUCTIONS},
    "argmax": {"dimension": "axis"},
    "argmin": {"dimension": "axis"},
    "concat": {"concat_dim": "axis"},
    "expand_dims": {"dim": "axis"},
    "norm": {"keep_dims": "keepdims"},
    "reverse_sequence": {"seq_dim": "seq_axis", "batch_dim": "batch_axis"},
    "split": {"split_dim": "axis"},
    "squeeze": {"squeeze_dims": "axis"},
}


def renaming(function: Callable[..., Any], **names: str) -> Callable[..., Any]:
    """A function that also takes arguments by their old names."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for old, new in names.items():
            if old in kwargs:
                given = kwargs.pop(old)
                if given is not None:
                    kwargs[new] = given
        return function(*args, **kwargs)

    return call
