"""TensorFlow 1: `tf.compat.v1`.

Everything of `gradtape.tf` is here too, under TensorFlow 1's names for functions and arguments.
"""

from __future__ import annotations

from typing import Any

from gradtape.tf.base.scopes import name_scope
from gradtape.tf.base.suggestions import face, missing
from gradtape.tf.ops.elementwise import log
from gradtape.tf.ops.matrices import inv as matrix_inverse
from gradtape.tf.ops.random_numbers import normal as random_normal
from gradtape.tf.ops.random_numbers import set_seed as set_random_seed
from gradtape.tf.ops.random_numbers import truncated_normal
from gradtape.tf.ops.random_numbers import uniform as random_uniform
from gradtape.tf.v1 import graphs as _graphs
from gradtape.tf.v1 import nn, train
from gradtape.tf.v1 import renamed as _renamed
from gradtape.tf.v1 import session as _session
from gradtape.tf.v1 import variables as _variables
from gradtape.tf.v1.graphs import *
from gradtape.tf.v1.renamed import *
from gradtape.tf.v1.renamed import OLD_ARGUMENTS, RENAMED, renaming
from gradtape.tf.v1.session import *
from gradtape.tf.v1.symbolic import group, placeholder, placeholder_with_default
from gradtape.tf.v1.variables import *

__all__ = [
    "group", "log", "matrix_inverse", "name_scope", "nn", "placeholder", "placeholder_with_default",
    "random_normal", "random_uniform", "set_random_seed", "train", "truncated_normal",
]  # fmt: skip
__all__ += _graphs.__all__
__all__ += _renamed.__all__
__all__ += _session.__all__
__all__ += _variables.__all__


def __getattr__(name: str) -> Any:
    """TensorFlow 1 has most of tf.math, tf.linalg and tf.random at its top, too."""
    if name in OLD_ARGUMENTS:
        return renaming(_find(name), **OLD_ARGUMENTS[name])
    return _find(name)


def _find(name: str) -> Any:
    tf = face()
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in RENAMED:
        result: Any = tf
        for part in RENAMED[name].split("."):
            result = getattr(result, part)
        return result
    for module in (tf, tf.math, tf.linalg):
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(missing("tf.compat.v1", name, globals()), name=name)
