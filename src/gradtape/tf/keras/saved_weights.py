"""save_weights and load_weights of models, in Keras' words."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from gradtape.tf.programs import checkpoints, trackable
from gradtape.training.storage.weights import read_arrays


def save_weights(model: Any, filepath: Any, overwrite: bool) -> None:
    """Write the variables of a model by the attributes that lead to them."""
    path: Path = checkpoints._place(filepath)
    if not trackable.cells_of(model):
        raise ValueError(f"{model.name}: the model has no variables yet. Call it once, then save.")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists. Pass overwrite=True, or another path.")
    checkpoints.write_values(model, path)


def load_weights(model: Any, filepath: Any, skip_mismatch: bool) -> None:
    """Assign the values of a file to the variables of a model; all of them, or none."""
    arrays = read_arrays(checkpoints._existing(filepath))
    cells = trackable.cells_of(model)
    problems = {
        name: problem
        for name, cell in cells.items()
        if name in arrays and (problem := checkpoints.difference(cell, arrays[name])) is not None
    }
    words = [f"{name} {problem}" for name, problem in problems.items()]
    words += [f"{name} is missing in the file" for name in cells if name not in arrays]
    words += [f"{name} is only in the file" for name in arrays if name not in cells]
    if words:
        text = f"{model.name}: {'; '.join(words)}."
        if not skip_mismatch:
            raise ValueError(
                f"{text} Nothing was loaded. Call the model once to make its variables, or pass "
                "skip_mismatch=True."
            )
        warnings.warn(text, stacklevel=4)
    for name, cell in cells.items():
        if name in arrays and name not in problems:
            checkpoints.fill(cell, arrays[name])
