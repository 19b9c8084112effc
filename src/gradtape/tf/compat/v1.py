"""TensorFlow 1: `tf.compat.v1`.

Everything of `gradtape.tf` is here too, under TensorFlow 1's names for functions and arguments.
"""

from __future__ import annotations

import operator
from typing import Any

from gradtape.libraries import check_exports
from gradtape.tf.base.scopes import name_scope
from gradtape.tf.base.suggestions import face, missing
from gradtape.tf.ops.elementwise import log
from gradtape.tf.ops.matrices import inv as matrix_inverse
from gradtape.tf.ops.random_numbers import (
    normal as random_normal,
    set_seed as set_random_seed,
    truncated_normal,
    uniform as random_uniform,
)
from gradtape.tf.v1 import (
    graphs as _graphs,
    nn,
    renamed as _renamed,
    session as _session,
    train,
    variables as _variables,
)
from gradtape.tf.v1.graphs import *
from gradtape.tf.v1.renamed import *
from gradtape.tf.v1.renamed import RENAMED
from gradtape.tf.v1.session import *
from gradtape.tf.v1.signatures import OldNamespace, with_old_arguments
from gradtape.tf.v1.symbolic import group, placeholder, placeholder_with_default
from gradtape.tf.v1.variables import *

__all__ = [
    "group",
    "log",
    "matrix_inverse",
    "name_scope",
    "nn",
    "placeholder",
    "placeholder_with_default",
    "random_normal",
    "random_uniform",
    "set_random_seed",
    "train",
    "truncated_normal",
]
__all__ += _graphs.__all__
__all__ += _renamed.__all__
__all__ += _session.__all__
__all__ += _variables.__all__


# Namespaces whose functions have other arguments here, and those that mean other things here.
_NAMESPACES = ("debugging", "linalg", "math", "random")
_DIFFERENT = ("losses", "metrics", "optimizers")


def __getattr__(name: str) -> Any:
    """TensorFlow 1 has most of tf.math, tf.linalg and tf.random at its top, too."""
    found = _find(name)
    if name in _NAMESPACES:
        globals()[name] = found = OldNamespace(found)
    return with_old_arguments(found, name) if callable(found) else found


def _find(name: str) -> Any:
    tf = face()
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in RENAMED:
        return operator.attrgetter(RENAMED[name])(tf)
    for module in (tf, tf.math, tf.linalg):
        if name in module.__all__ and name not in _DIFFERENT:
            return getattr(module, name)
    raise AttributeError(missing("tf.compat.v1", name, globals()), name=name)


check_exports(globals(), __all__)
