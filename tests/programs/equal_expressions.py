"""Expressions that the interleavings compute, for tensors and for the reference."""

from __future__ import annotations

from tests.programs.unshared import Made, Unshared

import gradtape as gt


@gt.custom_gradient
def custom(a):
    """A square whose derivative is a Python closure."""
    return a * a, lambda dy: dy * 2.0 * a


@gt.custom_jvp
def pushed(a):
    """A square whose tangents are a Python function."""
    return a * a


@pushed.defjvp
def _(primals, tangents):
    (a,), (da,) = primals, tangents
    return a * a, 2.0 * a * da


def square(reference: Unshared, a: Made) -> Made:
    return reference.apply("multiply", a, a)


# Expressions of one operand: for tensors, and as applications of the reference.
UNARY = {
    "square": (lambda a: a * a, square),
    "custom": (custom, square),
    "pushed": (pushed, square),
    "checkpoint": (lambda a: gt.checkpoint(lambda a: a * a)(a), square),
    "branch": (lambda a: gt.cond(gt.asarray(True), lambda a: a * a, lambda a: a, a), square),
    "sin": (gt.sin, lambda r, a: r.apply("sin", a)),
    "half": (lambda a: a * 0.5, lambda r, a: r.apply("half", a)),
    "shift": (lambda a: a + 1.0, lambda r, a: r.apply("shift", a)),
    "exp": (gt.exp, lambda r, a: r.apply("exp", a)),
    "cube": (lambda a: a * a * a, lambda r, a: r.apply("multiply", square(r, a), a)),
    "wave": (lambda a: gt.sin(a * a), lambda r, a: r.apply("sin", square(r, a))),
}
# Those that take more time are taken less often.
SPECIAL = ("branch", "checkpoint", "custom", "pushed")
PLAIN = sorted(set(UNARY).difference(SPECIAL))
BINARY = {
    "multiply": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
}
