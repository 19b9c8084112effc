"""print: values of tensors as part of a program."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gradtape.tf.base.dispatch import effect, leave_for_python
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.programs.variable import Variable

__all__ = ["print"]


@effect
def print(*inputs: Any, **kwargs: Any) -> None:
    """Write values of tensors, and whatever else is given, one after the other.

    >>> tf.print("x =", tf.constant([1.0, 2.0]), output_stream=sys.stdout)
    x = [1 2]
    """
    leave_for_python()
    unknown = set(kwargs) - {"output_stream", "sep", "end", "summarize", "name"}
    if unknown:
        raise ValueError(f"print: unknown arguments {sorted(unknown)}.")
    stream: Any = kwargs.get("output_stream", sys.stderr)
    if not hasattr(stream, "write"):
        raise ValueError(f"print: output_stream={stream!r} cannot be written to. Pass sys.stdout.")
    edge = kwargs.get("summarize")
    edge = 3 if edge is None else int(edge)
    text = kwargs.get("sep", " ").join(_shown(each, edge) for each in inputs)
    stream.write(text + kwargs.get("end", "\n"))


def _number(x: Tensor) -> str:
    """As many digits as are sure, and more only if they are needed to tell the number."""
    few, all_of_them = (6, 9) if np.asarray(x).dtype == np.float32 else (15, 17)
    text = f"{x:.{few}g}"
    return text if type(x)(text) == x else f"{x:.{all_of_them}g}"


_FORMATS: Any = {"float_kind": _number, "bool": lambda x: "1" if x else "0"}


def _shown(thing: Any, edge: int) -> str:
    """Text for values; of long axes as many elements of both ends, all if it is negative."""
    if isinstance(thing, Variable) or hasattr(thing, "enter"):
        array = np.asarray(thing)
        limit = {"threshold": sys.maxsize} if edge < 0 else {"threshold": 0, "edgeitems": edge}
        return np.array2string(array, formatter=_FORMATS, **limit)  # type: ignore[arg-type]
    if isinstance(thing, dict):
        inside = ", ".join(f"{key!r}: {_shown(value, edge)}" for key, value in thing.items())
        return "{" + inside + "}"
    if isinstance(thing, (list, tuple)):
        inside = ", ".join(_shown(each, edge) for each in thing)
        return f"[{inside}]" if isinstance(thing, list) else f"({inside})"
    return str(thing)
