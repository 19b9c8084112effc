"""Plans by structure: bounded, shared by all threads."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from gradtape.graph.locks import new_lock
from gradtape.graph.program import Program, sealed
from gradtape.optimize import optimize
from gradtape.runtime.counters import COUNTS
from gradtape.runtime.tiers import Tiered

PLAN_LIMIT = 4096

_plans: OrderedDict[tuple[Any, ...], Tiered] = OrderedDict()
_lock = new_lock()


def plan_for(program: Program, fast: bool = False) -> Tiered:
    """The plan of this structure, built at its first sighting; `fast` rounds as is quickest."""
    key = (*program.key(), "fast") if fast else program.key()
    with _lock:
        found = _plans.get(key)
        if found is not None:
            _plans.move_to_end(key)
            COUNTS.plan_hits += 1
            return found
    built = Tiered(optimize(sealed(program), fast), fast)
    with _lock:
        COUNTS.plans_built += 1
        _plans[key] = built
        if len(_plans) > PLAN_LIMIT:
            _plans.popitem(last=False)
    return built


def clear_plans() -> None:
    """Forget every plan.

    >>> gt.clear_plans()
    """
    with _lock:
        _plans.clear()
