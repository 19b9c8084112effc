"""print: values of tensors as part of a program."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gradtape.tf.dispatch import effect, leave_for_python
from gradtape.tf.variable import Variable

__all__ = ["print"]


@effect
def print(*inputs: Any, **kwargs: Any) -> None:
    """Write values of tensors, and whatever else is given, one after the other.

    >>> tf.print("x =", tf.constant([1.0, 2.0]), output_stream=sys.stdout)
    x = [1 2]
    """
    leave_for_python()
    stream: Any = kwargs.get("output_stream", sys.stderr)
    text = kwargs.get("sep", " ").join(_shown(each) for each in inputs)
    stream.write(text + kwargs.get("end", "\n"))


def _shown(thing: Any) -> str:
    if isinstance(thing, Variable) or hasattr(thing, "enter"):
        array = np.asarray(thing)
        return np.array2string(array, formatter={"float_kind": lambda x: f"{x:.9g}"})
    if isinstance(thing, dict):
        return "{" + ", ".join(f"{key!r}: {_shown(value)}" for key, value in thing.items()) + "}"
    if isinstance(thing, (list, tuple)):
        inside = ", ".join(_shown(each) for each in thing)
        return f"[{inside}]" if isinstance(thing, list) else f"({inside})"
    return str(thing)
