"""Error messages for missing names: each suggests the nearest existing name."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from gradtape.suggestions import nearest

# Names of TensorFlow that are not covered, and what to do instead.
REMEDIES = {
    "float16": "Half precision is not computed with here; use tf.float32.",
    "half": "Half precision is not computed with here; use tf.float32.",
    "bfloat16": "Half precision is not computed with here; use tf.float32.",
    "string": "Tensors hold numbers and booleans; keep strings in Python.",
    "strings": "Tensors hold numbers and booleans; keep strings in Python.",
    "RaggedTensor": "Rows of different length are not one tensor here; pad them, or keep a list.",
    "ragged": "Rows of different length are not one tensor here; pad them, or keep a list.",
    "SparseTensor": "For sparse Jacobians see tape.jacobian(..., sparse=True).",
    "sparse": "For sparse Jacobians see tape.jacobian(..., sparse=True).",
    "io": "Read files with NumPy or Python, and pass arrays.",
    "image": "Write it with tf functions on arrays, or use tf.numpy_function.",
    "distribute": "gradtape.tf runs in one process on one machine.",
    "lite": "Models are not exported from here.",
    "saved_model": "Save variables with tf.train.Checkpoint, or gt.save.",
}


def suggest_names(path: str, module: ModuleType) -> None:
    """Let the error for a missing name of a namespace, called by its path, suggest the nearest."""

    def find(name: str) -> Any:
        raise AttributeError(missing(path, name, vars(module)), name=name, obj=module)

    vars(module)["__getattr__"] = find


def missing(module: str, name: str, names: Mapping[str, Any]) -> str:
    """The message for a name that a module does not have."""
    sentence = f"module {module!r} has no attribute {name!r}."
    if name.startswith("__"):
        return sentence
    if name in REMEDIES:
        return f"{sentence} {REMEDIES[name]}"
    mine = [f"{module}.{each}" for each in nearest(name, names.get("__all__", ()))]
    result = [*elsewhere(name), *mine][:2]
    if result:
        return f"{sentence} Did you mean {' or '.join(result)}?"
    return f"{sentence} It is not part of gradtape.tf; gradtape may have it under another name."


def elsewhere(name: str) -> list[str]:
    """The paths of the same name, in a namespace of gradtape.tf or in gradtape itself."""
    tf = face()
    result = []
    for each in ("tf", *(f"tf.{part}" for part in tf.SUBMODULES)):
        module = tf
        for part in each.split(".")[1:]:
            module = getattr(module, part)
        if name in getattr(module, "__all__", ()):
            result.append(f"{each}.{name}")
    result.sort(key=lambda path: path.count("."))
    if name in sys.modules["gradtape"].__all__:
        result.append(f"gradtape.{name}")
    return result


def face() -> ModuleType:
    """The package `gradtape.tf`, which imports this module and is loaded when names are missed."""
    return sys.modules["gradtape.tf"]
