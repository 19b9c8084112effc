"""Twins: the same program undecorated and decorated, side by side."""

import warnings

import numpy as np

import gradtape as gt


def shown(nest):
    """Everything in a nest, as plain data."""
    return [
        (str(leaf.dtype), leaf.numpy().tolist())
        if isinstance(leaf, (gt.Tensor, gt.Variable))
        else leaf.tolist()
        if isinstance(leaf, np.ndarray)
        else leaf
        for leaf in gt.pytree.flatten(nest)[0]
    ]


def outcome(call):
    """What a call gave, or how it failed."""
    try:
        return shown(call())
    except Exception as error:
        return type(error).__name__, str(error)


def history(make, decorated):
    """What every call gave, and what there was to see after it.

    `make()` gives a function, the arguments of each call, and what shows (and may change) the state
    between calls, or None. Arguments may be a function that makes them.
    """
    gt.random.seed(11)
    f, calls, look = make()
    f = gt.function(f) if decorated else f
    found = []
    with warnings.catch_warnings():
        # What is not captured says so; here it only has to be right.
        warnings.filterwarnings("ignore", "gt.function: ")
        for call in calls:
            args = call() if callable(call) else call
            found.append((outcome(lambda args=args: f(*args)), look and outcome(look)))
    return found


def assert_twins(make):
    plain, decorated = history(make, False), history(make, True)
    for number, (expected, got) in enumerate(zip(plain, decorated, strict=True)):
        assert agree(got, expected), f"call {number}: {got} instead of {expected}"


def agree(a, b):
    """Whether plain data are the same but for the last bits of floats. NaN is NaN."""
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(agree, a, b))
    if type(a) is float and type(b) is float:
        return bool(np.isclose(a, b, rtol=1e-12, atol=0.0, equal_nan=True))
    return type(a) is type(b) and a == b
