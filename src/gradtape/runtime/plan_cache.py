"""The cache of plans, by the structure of the program: bounded, shared by all threads.

Programs that differ in sizes only have one *outline*; the compiled plan of one serves as the model
of the others, which then need no new kernels.

The plan that was used longest ago is forgotten first. It is freed, with the machine code that no
other plan calls, with the last reference to it; a run holds one.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Protocol, TypeVar

from gradtape.compiler.counts import COUNTS
from gradtape.compiler.passes.resize import outline
from gradtape.concurrency import WeakTable, new_lock
from gradtape.config import LONGEST_PLAN_KEY, MOST_CACHED_CALLING_PLANS, MOST_CACHED_PLANS
from gradtape.dtypes import World
from gradtape.ir.logs import Log
from gradtape.ir.program import Program, sealed, sealed_inputs
from gradtape.ops.control.bodies import calls_python
from gradtape.runtime.profiler_sink import PROBE
from gradtape.runtime.tiers import TieredPlan
from gradtape.runtime.when_to_compile import Outline

_K = TypeVar("_K")
_V = TypeVar("_V")
_Sizes = tuple[int, ...]
_Structure = tuple[Hashable, ...]
_Plans = OrderedDict[tuple[_Structure, _Sizes], TieredPlan]
_plans: _Plans = OrderedDict()
_calling_plans: _Plans = OrderedDict()
# By outline: the time that NumPy has spent on it, and a plan of it.
_outlines: OrderedDict[_Structure, Outline] = OrderedDict()
_log = Log("runtime")
_lock = new_lock()


def plan_for(program: Program, fast: bool = False) -> TieredPlan:
    """The plan of a program, shared by all programs of its structure.

    With `fast` its kernels round as is quickest.
    """
    if len(program.nodes) > LONGEST_PLAN_KEY:
        COUNTS.plans_built += 1
        begin = time.perf_counter_ns()
        long = TieredPlan(sealed(program), fast)
        why = "too long to compare its structure"
        _log.debug("new plan of %d ops: %s", len(program.nodes), why)
        if PROBE.sink is not None:
            PROBE.sink.built(long, begin, why)
        return long
    outlined = outline(program)
    structure = outlined[0] if outlined is not None else program.key()
    key = (*structure, "fast") if fast else structure
    sizes = outlined[1] if outlined is not None else ()
    plans = _calling_plans if calls_python(program) else _plans
    with _lock:
        found = plans.get((key, sizes))
        if found is not None:
            plans.move_to_end((key, sizes))
            COUNTS.plan_hits += 1
            _log.debug("found the plan of %d ops", len(program.nodes))
            return found
        shared = _outlines.get(key)
    begin = time.perf_counter_ns()
    built = None
    seen = shared is not None and outlined is not None
    if shared is None:
        shared = Outline(structure)
    elif shared.model is not None:
        model, before = shared.model
        built = model.resized(sealed_inputs(program), dict(zip(before, sizes, strict=True)))
    if built is None:
        built = TieredPlan(sealed(program), fast, shared, sizes)
    known = "its structure was seen at other sizes" if seen else "new structure"
    _log.debug("new plan of %d ops: %s", len(program.nodes), known)
    if PROBE.sink is not None:
        PROBE.sink.built(built, begin, known)
    with _lock:
        COUNTS.plans_built += 1
        if plans is _plans:
            _keep(_plans, (key, sizes), built, MOST_CACHED_PLANS)
            if outlined is not None:
                _keep(_outlines, key, shared, MOST_CACHED_PLANS)
        else:
            _keep(_calling_plans, (key, sizes), built, MOST_CACHED_CALLING_PLANS)
    return built


def _keep(plans: OrderedDict[_K, _V], key: _K, plan: _V, limit: int) -> None:
    plans[key] = plan
    plans.move_to_end(key)
    if len(plans) > limit:
        plans.popitem(last=False)
        _log.debug("dropped the least recently used plan: %d are kept", limit)


class PlanHolder(Protocol):
    """A function, which holds plans besides the cache."""

    def forget_plans(self) -> None:
        """Forget the plans that this thread uses."""
        ...


_holders: WeakTable[int, PlanHolder] = WeakTable()


def note_holder(holder: PlanHolder) -> None:
    """Register an object that holds plans with `forget_plans`."""
    _holders.setdefault(id(holder), holder)


def plan_holders() -> list[PlanHolder]:
    """The functions that are alive."""
    return _holders.values()


def plans_held() -> int:
    """The number of plans in the cache."""
    return len(_plans) + len(_calling_plans)


def forget_plans() -> None:
    """Forget every plan and every captured call, those of other threads at their next calls."""
    with _lock:
        for known in (_plans, _calling_plans, _outlines):
            known.clear()
    World.advance()
    for holder in _holders.values():
        holder.forget_plans()
