"""Names that Keras makes of classes: `Conv2D` is conv2d, `LSTM` lstm, `RMSprop` rm_sprop."""

from __future__ import annotations

import re


def snake_case(name: str) -> str:
    """Words apart and in small letters; digits belong to the word before them."""
    spaced = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower().lstrip("_")
