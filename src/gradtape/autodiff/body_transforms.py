"""The transforms that the rules of loops and branches apply to their bodies.

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


class BodyTransforms:
    """The transforms of a body, without a recording."""

    batch = staticmethod(batch)
    detect = staticmethod(detect)

    @staticmethod
    def forward(
        targets: Sequence[Node], sources: Sequence[Node], tangents: Sequence[Node]
    ) -> list[Node | None]:
        """Tangents of the targets."""
        return forward(targets, sources, tangents, (), PythonRules(None).push)

    @staticmethod
    def reverse(
        targets: Sequence[Node], cotangents: Sequence[Node], sources: Sequence[Node]
    ) -> list[Node | Rows | None]:
        """Cotangents of the sources."""
        return reverse(targets, cotangents, sources, (), PythonRules(None).pull)


hooks.transforms = BodyTransforms
