"""Libraries: what code on top of gradtape uses beside the functions of users.

`gt.nn`, `gt.optimizers`, `gt.training` and `gt.distributed` are written with these names and the
other public ones: checks of arguments, objects whose changes a captured function notices, values
that are known already, in-place updates of rows.

>>> gt.libraries.as_count("batch_size", 32, least=1)
32
"""

from __future__ import annotations

import numpy as np

from gradtape.argument_checks import (
    as_count,
    as_real,
    check_exports,
    check_function,
    checked,
    refused_binding,
)
from gradtape.concurrency import new_lock
from gradtape.display import Displayed, new_figure
from gradtape.dtypes import as_dtype
from gradtape.errors import shown
from gradtape.ir.origin import named_scope, notes_scopes, warn
from gradtape.ir.spec import spec
from gradtape.ops.arrays.positions import known_value
from gradtape.ops.families.shapes import broadcast_shapes, normalize_axes, normalize_axis
from gradtape.ops.families.signatures import kind_of_operand
from gradtape.progress import Progress, chosen as checked_progress, style_of as progress_style
from gradtape.records import described
from gradtape.suggestions import explain_attributes, namespace
from gradtape.tensor.modes import compiled_first
from gradtape.tensor.row_updates import add_to_rows, combined_rows, update_rows
from gradtape.tensor.tensor import Tensor
from gradtape.trace.capturing import read_state
from gradtape.trace.change_counter import TellsChanges, tell_change
from gradtape.trace.followed_number import FOLLOWED as _FOLLOWED
from gradtape.trace.recording import state as _state
from gradtape.trace.value import Value as _Value

__all__ = [
    "Displayed",
    "Progress",
    "TellsChanges",
    "add_to_rows",
    "as_count",
    "as_dtype",
    "as_real",
    "broadcast_shapes",
    "check_exports",
    "check_function",
    "checked",
    "checked_progress",
    "combined_rows",
    "compiled_first",
    "described",
    "explain_attributes",
    "is_followed",
    "kind_of_operand",
    "known_value",
    "named_scope",
    "namespace",
    "new_figure",
    "new_lock",
    "normalize_axes",
    "normalize_axis",
    "notes_scopes",
    "progress_style",
    "read_state",
    "refused_binding",
    "shown",
    "spec",
    "tape_records",
    "tell_change",
    "tensor_on_array",
    "update_rows",
    "warn",
]


def tape_records() -> bool:
    """Whether a tape of this thread records now.

    >>> with gt.GradientTape():
    ...     gt.libraries.tape_records()
    True
    """
    return bool(_state.tapes)


def is_followed(x: object) -> bool:
    """Whether a Python number of a captured function may be another one in its next call.

    >>> gt.libraries.is_followed(2.0)
    False
    """
    return type(x) in _FOLLOWED


def tensor_on_array(array: np.ndarray, kind: type[Tensor] = Tensor) -> Tensor:
    """A tensor on the memory of an array in C order, which must not change afterwards.

    >>> gt.libraries.tensor_on_array(np.arange(3.0)).tolist()
    [0.0, 1.0, 2.0]
    """
    return kind(None, None, _Value(array, spec(array.shape, array.dtype)))
