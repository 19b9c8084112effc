"""Optimisers in files: their attributes, and slots with the variables that they belong to."""

from __future__ import annotations

from typing import Any

from gradtape import Tensor, Variable, storage
from gradtape.errors import MismatchError
from gradtape.optimizers.optimizer import Optimizer
from gradtape.training.storage import VariableOwner

# Attributes that name variables by number, or that a process keeps for itself.
_NOT_SAVED = ("_slots", "_loaded_slots", "_undecayed", "_warned")


def _attributes(optimizer: Optimizer) -> dict[str, Any]:
    return {name: value for name, value in vars(optimizer).items() if name not in _NOT_SAVED}


def _take_apart(optimizer: Optimizer) -> dict[str, Any]:
    """The state: attributes, and slots with the variables that they belong to."""
    group = id(optimizer)
    slots: list[Any] = [(VariableOwner(n, group), cells) for n, cells in optimizer._slots.items()]
    return {
        "attributes": _attributes(optimizer),
        "slots": slots + [(None, cells) for cells in optimizer._loaded_slots],
        "undecayed": [VariableOwner(number, group) for number in sorted(optimizer._undecayed)],
    }


def _fill(optimizer: Optimizer, state: dict[str, Any]) -> storage.Change:
    """The change by which an optimiser takes a state; slots that it has stay, with new values."""
    slots: dict[int, tuple[Variable, ...]] = {}
    loaded: list[tuple[Variable, ...]] = []
    known: dict[int, tuple[Variable, ...]] = getattr(optimizer, "_slots", {})
    assigned: list[tuple[Variable, Tensor]] = []
    count = len(state["attributes"].get("slots", type(optimizer).slots))
    for owner, cells in state["slots"]:
        if len(cells) != count or not all(isinstance(cell, Variable) for cell in cells):
            raise ValueError(f"{len(cells)} slots for {count}")
        if owner is None:
            loaded.append(tuple(cells))
            continue
        variable = owner.variable
        if any(tuple(cell.shape) != tuple(variable.shape) for cell in cells):
            raise ValueError("slots of another shape than their variable")
        slots[variable.number] = known.get(variable.number, tuple(cells))
        if variable.number in known:
            values = (cell.value for cell in cells)
            assigned += zip(known[variable.number], values, strict=True)
    if any(owner is None for owner in state["undecayed"]):
        raise MismatchError(
            "load: the optimizer spares variables from weight decay that were not saved with it. "
            "Save the variables in the same tree, or spare them by var_names."
        )
    attributes = {
        **state["attributes"],
        "_slots": slots,
        "_loaded_slots": loaded,
        "_undecayed": {owner.variable.number for owner in state["undecayed"]},
        "_warned": set(),
    }
    change = storage.take_attributes(optimizer, attributes)
    cells = [cell for cell, _ in assigned]
    before = [cell._handle for cell in cells]

    def apply() -> None:
        change.apply()
        for cell, value in assigned:
            cell.assign(value)

    def undo() -> None:
        Variable.hold_again(cells, before)
        change.undo()

    return storage.Change(apply, undo)


def _stored(cls: type, name: str) -> storage.Codec:
    return storage.Codec(
        cls,
        name,
        _take_apart,
        fill=_fill,
        holds_code=True,
        fills_last=True,
        guide=lambda optimizer: {
            "attributes": _attributes(optimizer),
            "slots": None,
            "undecayed": None,
        },
    )


storage.register_family(Optimizer, _stored)
