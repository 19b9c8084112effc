"""Derivatives that would be lost in silence warn, and name the line or the cause with its remedy.

The rows of the tables are programs as users write them; a row of `SILENT` loses nothing.
"""

import inspect
import math
import re
import warnings

import numpy as np
import pytest

import gradtape as gt
import gradtape.tf as tf


def warnings_of(program):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        program()
    return [str(each.message) for each in found]


def recorded(f, w=None):
    """The gradient of f at a Variable or a watched tensor."""
    w = gt.Variable(0.8) if w is None else w
    with gt.GradientTape() as tape:
        if isinstance(w, gt.Tensor):
            tape.watch(w)
        y = f(w)
    return tape.gradient(y, w)


def exponential(v):
    return math.exp(v)


def by_name(w):
    s = w.item()
    scale = (s**2 + 1.0) / 3.0
    return scale * w


def by_list(w):
    values = gt.stack([w, 2.0 * w]).tolist()
    return gt.sum(gt.asarray(values) * w)


def by_augmented(w):
    total = 0.0
    total += float(w)
    return total * w


LOST = {
    "math": lambda w: math.sin(w) * w,
    "float": lambda w: float(w) * w,
    "item": lambda w: w.item() * w,
    "int": lambda w: int(w * 5.0) * w,
    "complex": lambda w: gt.real(complex(w) * w),
    "math of two": lambda w: math.hypot(w, 2.0) + w,
    "arithmetic": lambda w: w * (float(w) ** 2 + 1.0),
    "intermediate": lambda w: math.cos(w * w) * w,
    "helper": lambda w: exponential(w) * w,
    "asarray": lambda w: gt.asarray(float(w)) * w,
    "numpy": lambda w: np.sin(float(w)) * w,
    "argument": lambda w: gt.multiply(float(w), w),
    "max": lambda w: max(float(w), 0.1) * w,
    "loss": lambda w: gt.nn.losses.mean_squared_error([float(w)], gt.stack([2.0 * w])),
    "name": by_name,
    "list": by_list,
    "augmented": by_augmented,
}


@pytest.mark.parametrize("kind", ["variable", "tensor"])
@pytest.mark.parametrize("name", LOST)
def test_a_number_that_goes_on_warns(name, kind):
    w = gt.Variable(0.8) if kind == "variable" else gt.asarray(0.8)
    found = warnings_of(lambda: recorded(LOST[name], w))
    assert len(found) == 1, found
    line = inspect.getsourcelines(LOST[name])[1]
    assert "no derivative passes" in found[0]
    assert "gt functions" in found[0]
    assert "stop_gradient" in found[0]
    if name not in ("helper", "name", "list", "augmented"):
        assert f"{__file__}:{line}" in found[0]


def test_once_for_each_line():
    def program(w):
        for _ in range(3):
            y = math.sin(w) * w
            z = math.cos(w) * w
        return y + z

    assert len(warnings_of(lambda: recorded(program))) == 2


DERIVATIVES = {
    "gradient": lambda tape, y, x: tape.gradient(y, x),
    "jacobian": lambda tape, y, x: tape.jacobian(y, x),
    "hessian": lambda tape, y, x: tape.hessian(y, x),
    "jvp": lambda tape, y, x: tape.jvp(y, x, [1.0, 0.0]),
    "hvp": lambda tape, y, x: tape.hvp(y, x, [1.0, 0.0]),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_at_every_derivative(name):
    x = gt.Variable([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        y = gt.sum(x * x) * float(gt.sum(x))
    (found,) = warnings_of(lambda: DERIVATIVES[name](tape, y, x))
    assert "no derivative passes" in found


def printed(w):
    loss = w * w
    print("loss", float(loss), f"{float(loss):.3f} {loss} {loss:.2f}", loss.item())
    return gt.nn.losses.mean_squared_error([loss, w], [0.3, 1.0]) * 0.37


def logged(w):
    losses, total, seen = [], 0.0, {}
    loss = w * w
    losses.append(float(loss))
    seen["loss"] = loss.item()
    total += float(loss)
    return loss / len(losses) + 1.5 * w


def branched(w):
    if float(w) > 0.5 and w.item() < 2.0:
        return w * w * 1.7
    assert float(w) < 1.0
    return w * 3.1


def as_index(w):
    table = gt.asarray([0.1, 0.2, 0.3])
    for _ in range(int(w * 3.0)):
        table = table * 1.1
    return table[int(w)] * w


def trained(w):
    loss = w * w * 0.2
    print("loss", float(loss))
    regular = sum(w * w for _ in range(2))
    return loss + 0.01 * regular / 3


class Remembers:
    last = 0.0

    def __call__(self, w):
        y = w * w
        self.last = float(y)
        return y * 1.5 / len([1, 2, 3])


def best_of(w):
    best, total = 1e9, 0.0
    for at in range(3):
        loss = w * float(at + 1)
        total = total + loss
        best = min(best, float(loss))
    return total / 3


SILENT = {
    "train": trained,
    "attribute": Remembers(),
    "best": best_of,
    "print": printed,
    "log": logged,
    "branch": branched,
    "index": as_index,
    "stopped": lambda w: float(gt.stop_gradient(w)) * w,
    "numpy": lambda w: w.numpy() * w,
    "constant": lambda w: float(gt.asarray(3.0)) * w,
    "plain": lambda w: 2.0 * w,
}


@pytest.mark.parametrize("name", SILENT)
def test_what_loses_nothing_is_silent(name):
    assert warnings_of(lambda: recorded(SILENT[name])) == []


def test_a_number_that_is_read_after_the_tape_is_silent():
    def program():
        w = gt.Variable(0.8)
        with gt.GradientTape() as tape:
            y = w * w
        print(float(y), math.sin(w) * 2.0)
        tape.gradient(y, w)

    assert warnings_of(program) == []


def test_a_function_that_prints_is_differentiated_in_silence():
    def f(x):
        print(float(x))
        return x * x

    assert warnings_of(lambda: gt.grad(f)(2.0)) == []
    with pytest.warns(UserWarning, match="gt functions"):
        gt.grad(lambda x: math.sin(x) * x)(2.0)


def test_a_target_that_is_a_number_names_the_line():
    w = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = math.sin(w)
    with pytest.raises(ValueError, match=r"float made it a number at .*:\d+"):
        tape.gradient(y, w)


def not_watched():
    x = gt.asarray(1.0)
    with gt.GradientTape() as tape:
        y = x * x
    return tape.gradient(y, x)


def integer_variable():
    v = gt.Variable(3)
    with gt.GradientTape() as tape:
        y = v * v
    return tape.gradient(y, v)


def integer_beside_floats():
    v = gt.Variable(3)
    with gt.GradientTape() as tape:
        y = v * 2.5
    return tape.gradient(y, v)


def before_the_tape():
    v = gt.Variable(3.0)
    y = v * v  # line
    with gt.GradientTape() as tape:
        pass
    return tape.gradient(y, v)


def half_before_the_tape():
    v = gt.Variable(3.0)
    square = v * v  # line
    with gt.GradientTape() as tape:
        y = square + 1.0
    return tape.gradient(y, v)


def swapped():
    v = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = v * v
    return tape.gradient(v, y)


def swapped_list():
    v, u = gt.Variable(3.0), gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = v * u
    return tape.gradient([v, u], y)


def rebound():
    w = gt.Variable(3.0)
    for _ in range(2):
        with gt.GradientTape() as tape:
            loss = w * w
        g = tape.gradient(loss, w)
        if g is not None:
            w = w - 0.1 * g  # line
    return g


def not_trainable():
    v = gt.Variable(3.0, trainable=False)
    with gt.GradientTape() as tape:
        y = v * v
    return tape.gradient(y, v)


def watches_nothing():
    v = gt.Variable(3.0)
    with gt.GradientTape(watch_accessed_variables=False) as tape:
        y = v * v
    return tape.gradient(y, v)


def another():
    v, u = gt.Variable(3.0), gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = v * v
    return tape.gradient(y, [v, u])[1]


def through_numpy():
    v = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = gt.asarray(v.numpy() ** 2) * 2.0
    return tape.gradient(y, v)


def not_recording():
    v = gt.Variable(3.0)
    with gt.GradientTape() as tape, tape.stop_recording():
        y = v * v
    return tape.gradient(y, v)


CAUSES = {
    not_watched: ("x is None", r"tape\.watch\(x\)", r"gt\.Variable"),
    integer_variable: ("v is None", "int64", r"gt\.Variable\(3\.0\)"),
    integer_beside_floats: ("int64", r"gt\.Variable\(3\.0\)"),
    before_the_tape: ("before the tape began", "in line {line}", "inside"),
    half_before_the_tape: ("before the tape began", "in line {line}", "inside"),
    swapped: ("swapped", r"tape\.gradient\(target, sources\)"),
    swapped_list: ("swapped", r"tape\.gradient\(target, sources\)"),
    rebound: ("line {line}", r"w = w - 0\.1 \* g", "assign_sub"),
    not_trainable: ("not trainable", r"tape\.watch\(v\)"),
    watches_nothing: ("watch_accessed_variables=False", r"tape\.watch\(v\)"),
    another: ("u is None", "not computed from it"),
    through_numpy: ("NumPy arrays",),
    not_recording: ("did not record",),
}


@pytest.mark.parametrize("program", CAUSES, ids=lambda program: program.__name__)
def test_none_names_its_cause(program):
    lines, start = inspect.getsourcelines(program)
    marked = [start + at for at, text in enumerate(lines) if text.endswith("# line\n")]
    with pytest.warns(UserWarning, match="None: ") as found:
        assert program() is None
    (warning,) = found
    for words in CAUSES[program]:
        expected = words.replace("{line}", str(marked[0] if marked else 0))
        assert re.search(expected, str(warning.message)), str(warning.message)
    assert warning.filename == __file__
    assert 'unconnected_gradients="none"' in str(warning.message)


@pytest.mark.parametrize("word", ["none", "zero"])
def test_a_word_that_is_passed_is_silent(word):
    def program():
        v, u = gt.Variable(3.0), gt.Variable(2)
        with gt.GradientTape() as tape:
            y = v * v
        tape.gradient(y, [v, u, gt.asarray(1.0)], unconnected_gradients=word)

    assert warnings_of(program) == []


def test_tensorflow_is_followed():
    def program():
        v = tf.Variable(3.0)
        with tf.GradientTape() as tape:
            y = math.sin(v) * v
        tape.gradient(y, [v, tf.constant(1.0)])

    assert warnings_of(program) == []


MATRICES = {
    "jacobian": lambda tape, y, x, **more: tape.jacobian(y, x, **more),
    "jacobian, nests": lambda tape, y, x, **more: tape.jacobian([y, y], {"x": x}, **more)[0]["x"],
    "batch_jacobian": lambda tape, y, x, **more: tape.batch_jacobian(y, x, **more),
    "gradients": lambda tape, y, x, **more: gt.gradients(y, [x], **more)[0],
}


@pytest.mark.parametrize("name", MATRICES)
def test_none_of_matrices_names_its_cause(name):
    def program(**more):
        v, u = gt.Variable([3.0, 4.0]), gt.Variable([2.0, 1.0])
        with gt.GradientTape(persistent=True) as tape:
            y = v * v
            u * u
            return MATRICES[name](tape, y, u, **more)

    with pytest.warns(UserWarning, match=r"the gradient of \w+ is None: .*not computed from it"):
        assert program() is None
    assert warnings_of(lambda: program(unconnected_gradients="none")) == []
    assert warnings_of(lambda: program(unconnected_gradients="zero")) == []


def test_a_matrix_by_a_tensor_that_is_not_watched_says_so():
    x = gt.asarray([1.0, 2.0])
    with gt.GradientTape() as tape:
        y = x * x
    with pytest.warns(UserWarning, match=r"jacobian: .* x is None: .*tape\.watch\(x\)"):
        assert tape.jacobian(y, x) is None


def test_a_source_of_one_of_two_targets_is_silent():
    def program():
        v, u = gt.Variable([3.0]), gt.Variable([2.0])
        with gt.GradientTape() as tape:
            y, z = v * v, u * u
        assert tape.jacobian([y, z], [v, u])[0][1] is None

    assert warnings_of(program) == []


def tape_of(f, *sources):
    with gt.GradientTape() as tape:
        tape.watch(sources)
        y = f(*sources)
    return tape, y


def test_a_line_outside_a_helper_with_the_tape_is_not_blamed():
    x, other = gt.asarray(1.0), gt.asarray(2.0)
    tape, y = tape_of(lambda x, other: x * x, x, other)
    with pytest.warns(UserWarning, match="other is None: the target is not computed from it"):
        assert tape.gradient(y, other) is None
