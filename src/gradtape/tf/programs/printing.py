"""tf.print: values of tensors, printed whenever the program runs."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gradtape.libraries import check_exports
from gradtape.tf.base.dispatch import effect, leave_for_python
from gradtape.tf.programs.variable import Variable

__all__ = ["print"]


@effect
def print(*inputs: object, **kwargs: Any) -> None:
    """Write the values of tensors, and other objects, one after the other.

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


def _number(x: Any) -> str:
    """The digits that every such number has, or more if they do not identify it."""
    few, all_of_them = (6, 9) if np.asarray(x).dtype == np.float32 else (15, 17)
    text = f"{x:.{few}g}"
    return text if type(x)(text) == x else f"{x:.{all_of_them}g}"


_FORMATS: Any = {"float_kind": _number, "bool": lambda x: "1" if x else "0"}


def _shown(thing: object, edge: int) -> str:
    """The text of a value: `edge` elements at both ends of long axes, all if it is negative."""
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


check_exports(globals(), __all__)
