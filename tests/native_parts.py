"""Marks for tests of native parts, which are switched off on interpreters they do not know."""

import sys

import pytest

from gradtape.compiler.cpython import objects
from gradtape.runtime import tiers

needs_native = pytest.mark.skipif(
    not objects.supported() or tiers.MODE == "off", reason="not for this interpreter"
)
RECORDERS = ["python", pytest.param("native", marks=needs_native)]

# Python 3.14 runs signal handlers after the call of `__enter__` and before the block of `with`: an
# exception that a handler raises there leaves a lock taken (docs/decisions/0021-interrupts.md).
whole_with = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="`with` may be interrupted after the lock is taken"
)
