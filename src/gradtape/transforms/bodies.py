"""Hands the transforms to the ops that hold programs: their rules are made of these."""

from __future__ import annotations

from gradtape.ops.control.bodies import Transforms
from gradtape.transforms.batch import batch
from gradtape.transforms.forward import forward
from gradtape.transforms.reverse import reverse

Transforms.forward = staticmethod(forward)
Transforms.reverse = staticmethod(reverse)
Transforms.batch = staticmethod(batch)
