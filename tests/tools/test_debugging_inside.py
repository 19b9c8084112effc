"""debug_nans and errors of values name the user's line, wherever the op was recorded."""

import linecache

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import NonFiniteError

A = gt.asarray


def logarithm(x):
    y = x * 1.0
    return gt.log(y)  # the line of the value


def root(x):
    y = x * 1.0
    return gt.sqrt(y)  # the line of the slope


def inverse(a):
    b = a * 1.0
    return gt.linalg.inv(b)  # the line of the matrix


def looked_up(i):
    j = i + 0
    return gt.take(A([1.0, 2.0]), j, axis=0)  # the line of the index


AROUND = {
    "plain": lambda f: f,
    "function": gt.function,
    "vmap": lambda f: lambda x: gt.vmap(f)(gt.stack([x, x])),
    "nested vmap": lambda f: lambda x: gt.vmap(gt.vmap(f))(gt.stack([x, x])[None]),
    "scan": lambda f: lambda x: gt.scan(lambda c, a: (c, f(a)), 0, gt.stack([x, x]))[1],
    "fori": lambda f: lambda x: gt.fori_loop(0, 2, lambda i, c: c + 0.0 * f(x), 0.0 * f(x * 0 + 1)),
    "map": lambda f: lambda x: gt.map(f, gt.stack([x, x])),
    "cond": lambda f: lambda x: gt.cond(gt.sum(x) < 9.0, lambda: f(x), lambda: f(x)),
    "function of scan": lambda f: gt.function(
        lambda x: gt.scan(lambda c, a: (c, f(a)), 0, gt.stack([x, x]))[1]
    ),
    "vmap of scan": lambda f: (
        lambda x: gt.vmap(lambda y: gt.scan(lambda c, a: (c, f(a)), 0, gt.stack([y, y]))[1])(
            gt.stack([x, x])
        )
    ),
    "scan of vmap": lambda f: (
        lambda x: gt.scan(lambda c, a: (c, gt.vmap(f)(a)), 0, gt.stack([gt.stack([x, x])]))[1]
    ),
    "scan of cond": lambda f: (
        lambda x: gt.scan(
            lambda c, a: (c, gt.cond(c < 1, lambda: f(a), lambda: f(a))), 0, gt.stack([x, x])
        )[1]
    ),
    "checkpoint": gt.checkpoint,
    "function of vmap": lambda f: gt.function(lambda x: gt.vmap(f)(gt.stack([x, x]))),
}
SCALAR = {name: f for name, f in AROUND.items() if name != "fori"}


def line_of(comment):
    """Where in this file a comment stands."""
    for number, text in enumerate(linecache.getlines(__file__), start=1):
        if text.rstrip().endswith(f"# {comment}"):
            return f"{__file__}:{number}"
    raise AssertionError(comment)


@pytest.mark.parametrize("around", AROUND)
def test_values(around):
    with pytest.raises(NonFiniteError) as caught, gt.debug_nans():
        AROUND[around](logarithm)(A(-1.0))
    message = str(caught.value)
    assert "log made nan" in message
    assert f"at {line_of('the line of the value')}" in message


@pytest.mark.parametrize("around", AROUND)
def test_slopes(around):
    with pytest.raises(NonFiniteError) as caught, gt.debug_nans():
        gt.grad(lambda x: gt.sum(AROUND[around](root)(x)))(A(0.0))
    message = str(caught.value)
    assert f"in the derivative of sqrt, recorded at {line_of('the line of the slope')}" in message


@pytest.mark.parametrize("around", AROUND)
def test_slopes_inside_a_map(around):
    with pytest.raises(NonFiniteError) as caught, gt.debug_nans():
        gt.vmap(gt.grad(lambda x: gt.sum(AROUND[around](root)(x))))(A([1.0, 0.0]))
    assert f"of sqrt, recorded at {line_of('the line of the slope')}" in str(caught.value)


def test_forward_mode():
    with pytest.raises(NonFiniteError) as caught, gt.debug_nans():
        gt.jacfwd(AROUND["scan"](root))(A(0.0))
    assert f"of sqrt, recorded at {line_of('the line of the slope')}" in str(caught.value)


def test_steps_are_told():
    def step(c, x):
        return c * 2.0, gt.log(x)

    told = r"log made nan at .*, in step 2 of 4 of a loop"
    with pytest.raises(NonFiniteError, match=told), gt.debug_nans():
        gt.scan(step, 1.0, A([3.0, 2.0, -1.0, -2.0]))
    with pytest.raises(NonFiniteError, match=r"in step 1 of a loop"), gt.debug_nans():
        gt.while_loop(lambda x: x < 9.0, lambda x: gt.log(x) - 1.0, 2.0)


def test_results_of_all_kinds_are_looked_at():
    """Not only the last of several."""
    with pytest.raises(NonFiniteError, match="log made nan"), gt.debug_nans():
        gt.scan(lambda c, x: (c, (gt.log(x), x * 2.0)), 0.0, A([-1.0]))


def test_the_line_is_that_of_this_time():
    """The same op was recorded by another line before."""
    with gt.debug_nans():
        gt.log(A(1.0))
        with pytest.raises(NonFiniteError) as caught:
            gt.log(A(-1.0))  # the line of this time
    assert line_of("the line of this time") in str(caught.value)


def test_finite_programs_give_what_they_give():
    x = A([0.5, 1.5])

    def f(x):
        return gt.scan(lambda c, a: (gt.sin(c) * a, gt.cond(a > 1.0, gt.log, gt.sqrt, a)), 1.0, x)

    expected = gt.jacobian(lambda x: f(x)[1])(x).numpy()
    with gt.debug_nans():
        found = gt.jacobian(lambda x: f(x)[1])(x)
        mapped = gt.vmap(lambda x: f(x)[0])(gt.stack([x, x]))
    np.testing.assert_allclose(found.numpy(), expected)
    np.testing.assert_allclose(mapped.numpy(), [float(f(x)[0])] * 2)


def told(call, error):
    """What an error of values says about its line: in a note, or by coming from there."""
    import traceback

    with pytest.raises(error) as caught:
        call()
    notes = "\n".join(getattr(caught.value, "__notes__", []))
    frames = traceback.extract_tb(caught.value.__traceback__)
    return notes, [f"{frame.filename}:{frame.lineno}" for frame in frames]


@pytest.mark.parametrize("around", [name for name in AROUND if name != "fori"])
def test_singular_matrices(around):
    line = line_of("the line of the matrix")
    f = AROUND[around](inverse)
    for _ in range(2):
        notes, frames = told(lambda: gt.evaluate(f(A(np.zeros((2, 2))))), np.linalg.LinAlgError)
        assert line in frames or f"inv recorded at {line}" in notes


@pytest.mark.parametrize("around", [name for name in AROUND if name != "fori"])
def test_indices_out_of_range(around):
    line = line_of("the line of the index")
    f = AROUND[around](looked_up)
    for _ in range(2):
        notes, frames = told(lambda: gt.evaluate(f(A(5))), IndexError)
        assert line in frames or f"take recorded at {line}" in notes


def test_functions_that_were_captured_with_good_values():
    for name in ("function", "function of scan", "function of vmap"):
        f = AROUND[name](inverse)
        for _ in range(3):
            f(A(np.eye(2)))
        notes, frames = told(lambda f=f: f(A(np.zeros((2, 2)))), np.linalg.LinAlgError)
        assert line_of("the line of the matrix") in "\n".join([notes, *frames])
