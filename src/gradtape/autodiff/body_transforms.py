"""The transforms that the rules of loops and branches apply to their bodies.

Derivatives that are part of the graph, such as those of solutions, need no recording. They may lie
inside a body, so its forward and reverse mode have these rules.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from gradtape.autodiff.batch import batch
from gradtape.autodiff.modes import forward, reverse
from gradtape.autodiff.python_rules import PythonRules
from gradtape.autodiff.sparse.detect import detect
from gradtape.ir.hooks import hooks

_RULES = PythonRules(None)

hooks.transforms = SimpleNamespace(
    batch=batch,
    detect=detect,
    forward=partial(forward, rules=_RULES),
    reverse=partial(reverse, rules=_RULES),
)
