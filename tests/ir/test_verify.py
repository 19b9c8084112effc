"""The verifier finds every kind of malformed program, and names it."""

import numpy as np
import pytest

from gradtape.errors import GraphError
from gradtape.ir.node import Node, apply, leaf, placeholder
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import Program
from gradtape.ir.spec import spec
from gradtape.ir.verify import verify

FLOAT = spec((2,), np.dtype("float64"))
OTHER = spec((3,), np.dtype("float64"))

X = leaf(0, FLOAT)
Y = apply(REGISTRY["sin"], (X,))
Z = apply(REGISTRY["multiply"], (Y, X))


def test_well_formed_program_is_returned():
    found = Program((X,), (Y, Z), (Z, X))
    assert verify(found) is found


MALFORMED = {
    "input listed twice": (Program((X, X), (Y,), (Y,)), "an input is listed twice"),
    "node computed twice": (Program((X,), (Y, Y), (Y,)), "computed twice or is also an input"),
    "node that is an input": (Program((X, Y), (Y,), (Y,)), "computed twice or is also an input"),
    "leaf among the nodes": (Program((), (X, Y), (Y,)), "is not among the inputs"),
    "placeholder among the nodes": (
        Program((), (placeholder(FLOAT),), ()),
        "is not among the inputs",
    ),
    "use before computation": (Program((X,), (Z, Y), (Z,)), "before it is computed"),
    "missing input": (Program((), (Y,), (Y,)), "before it is computed"),
    "missing params": (
        Program((X,), (Node(REGISTRY["reshape"], (X,), (), FLOAT),), ()),
        "has 0 params",
    ),
    "extra params": (
        Program((X,), (Node(REGISTRY["sin"], (X,), (1,), FLOAT),), ()),
        "has 1 params",
    ),
    "wrong spec": (
        Program((X,), (Node(REGISTRY["sin"], (X,), (), OTHER),), ()),
        r"should have spec float64\[2\]",
    ),
    "output never computed": (Program((X,), (Y,), (Z,)), "is never computed"),
}


@pytest.mark.parametrize("fault", MALFORMED)
def test_malformed_program_is_refused(fault):
    malformed, message = MALFORMED[fault]
    with pytest.raises(GraphError, match=message):
        verify(malformed)
