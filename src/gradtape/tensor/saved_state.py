"""State by name: variables as arrays, and back with every difference named at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gradtape.tensor.variable import Variable

Named = Iterable[tuple[str, Variable]]


def state_of(named: Named) -> dict[str, np.ndarray]:
    """The values of variables by name, as copies in NumPy arrays."""
    return {name: np.array(variable.numpy()) for name, variable in named}


def load(
    owner: str, named: Named, state: Mapping[str, object], remedy: str, strict: bool = True
) -> None:
    """Assign values by name; nothing is assigned if anything does not fit."""
    variables = dict(named)
    arrays = {name: np.asarray(state[name]) for name in variables if name in state}
    problems = [
        f"{name} has shape {array.shape} there and {variables[name].shape} here"
        for name, array in arrays.items()
        if array.shape != variables[name].shape
    ]
    if strict:
        missing = [name for name in variables if name not in state]
        unexpected = [name for name in state if name not in variables]
        problems = [
            *([f"missing: {', '.join(missing)}"] if missing else []),
            *([f"unexpected: {', '.join(unexpected)}"] if unexpected else []),
            *problems,
        ]
    if problems:
        raise ValueError(f"load_state_dict: {owner}: {'; '.join(problems)}. {remedy}")
    for name, array in arrays.items():
        variables[name].assign(array)
