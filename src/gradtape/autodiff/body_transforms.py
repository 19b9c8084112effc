"""Hands the transforms to the ops that hold bodies: the rules of loops and branches call them.

Derivatives that are part of the graph, such as those of solutions, need no recording. They may lie
inside a body, so its forward and reverse mode know these rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.autodiff.batch import batch
from gradtape.autodiff.forward import forward
from gradtape.autodiff.python_rules import PythonRules
from gradtape.autodiff.reverse import reverse
from gradtape.autodiff.sparse.detect import detect
from gradtape.ir import Node, Rows
from gradtape.ir.hooks import hooks


def _forward(
    targets: Sequence[Node], sources: Sequence[Node], tangents: Sequence[Node]
) -> list[Node | None]:
    return forward(targets, sources, tangents, (), PythonRules(None).push)


def _reverse(
    targets: Sequence[Node], cotangents: Sequence[Node], sources: Sequence[Node]
) -> list[Node | Rows | None]:
    return reverse(targets, cotangents, sources, (), PythonRules(None).pull)


hooks.forward = _forward
hooks.reverse = _reverse
hooks.batch = batch
hooks.detect = detect
