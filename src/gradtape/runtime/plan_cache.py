"""The cache of plans, by the structure of the program: bounded, shared by all threads.

Programs that differ in sizes only have one *outline*; the compiled plan of one serves as the model
of the others, which then need no new kernels.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

from gradtape.graph.locks import new_lock
from gradtape.graph.program import Program, sealed, sealed_inputs
from gradtape.optimize import optimize
from gradtape.optimize.resize import outline
from gradtape.runtime.counters import COUNTS
from gradtape.runtime.tiers import TieredPlan

PLAN_LIMIT = 4096


class Key:
    """A long structure whose hash is computed once."""

    __slots__ = ("_hash", "structure")

    def __init__(self, structure: tuple[Hashable, ...]) -> None:
        self.structure = structure
        self._hash = hash(structure)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.structure == other.structure


_K = TypeVar("_K")
_V = TypeVar("_V")
_Sizes = tuple[int, ...]
_plans: OrderedDict[tuple[Key, _Sizes], TieredPlan] = OrderedDict()
# The latest plan of each outline, with its sizes.
_models: OrderedDict[Key, tuple[TieredPlan, _Sizes]] = OrderedDict()
_lock = new_lock()


def plan_for(program: Program, fast: bool = False) -> TieredPlan:
    """The plan of a program, shared by all programs of its structure.

    With `fast` its kernels round as is quickest.
    """
    outlined = outline(program)
    structure = outlined[0] if outlined is not None else program.key()
    key = Key((*structure, "fast") if fast else structure)
    sizes = outlined[1] if outlined is not None else ()
    with _lock:
        found = _plans.get((key, sizes))
        if found is not None:
            _plans.move_to_end((key, sizes))
            COUNTS.plan_hits += 1
            return found
        model, before = _models.get(key, (None, ()))
    built = None
    if model is not None:
        built = model.resized(sealed_inputs(program), dict(zip(before, sizes, strict=True)))
    if built is None:
        built = TieredPlan(optimize(sealed(program), fast), fast)
    with _lock:
        COUNTS.plans_built += 1
        _keep(_plans, (key, sizes), built)
        if outlined is not None:
            _keep(_models, key, (built, sizes))
    return built


def _keep(plans: OrderedDict[_K, _V], key: _K, plan: _V) -> None:
    plans[key] = plan
    if len(plans) > PLAN_LIMIT:
        plans.popitem(last=False)


def clear_plans() -> None:
    """Forget every plan.

    >>> gt.clear_plans()
    """
    with _lock:
        _plans.clear()
        _models.clear()
