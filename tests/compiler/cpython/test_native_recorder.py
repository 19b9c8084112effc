"""The native recorder does what the closures do: same nodes, leaves, handles and errors."""

import copy
import gc
import inspect
import operator
import pickle
import sys
import threading

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

import gradtape as gt
from gradtape.compiler.cpython import native_recorder as native, objects
from gradtape.trace.recording import Recording, state

pytestmark = pytest.mark.skipif(not objects.supported(), reason="not for this interpreter")


class Recorder:
    """Switches between the two recorders."""

    def __init__(self):
        self.before = native.installed()

    def use(self, on):
        if on:
            assert native.install() is None
        else:
            native.uninstall()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.use(self.before)


@pytest.fixture(autouse=True)
def recorder():
    with Recorder() as found:
        found.use(True)
        yield found


def fresh():
    state.recording = Recording()
    return state.recording


class Described(gt.Tensor):
    """A tensor of a user's own: laid out like ours."""

    __slots__ = ()


class Noted(gt.Tensor):
    """A class of results with a dictionary, which only Python can make."""


Noted.result_class = Noted

VARIABLE = gt.Variable([1.0, 2.0, 3.0])


def operands():
    """One of each kind that an operator may meet; made anew, for a new recording."""
    x = gt.asarray([0.5, 1.5, 2.5])
    described = Described(None, None, gt.asarray([1.0, 2.0, 3.0]).computed)
    noted = Noted(None, None, gt.asarray([1.0, 2.0, 3.0]).computed)
    return [
        x,
        gt.asarray(np.array([2.0, 3.0, 4.0], "float32")),
        gt.asarray([1, 2, 3]),
        gt.asarray([True, False, True]),
        gt.asarray([1.0 + 2.0j, 0.5j, 1.0 + 0.0j]),
        gt.asarray(2.0),
        gt.asarray([1.0, 2.0]),
        x[::-1],
        gt.sin(x),
        described,
        noted,
        gt.Variable([1.0, 2.0, 3.0], name="cell"),
        np.array([3.0, 2.0, 1.0]),
        [1.0, 2.0, 3.0],
        2.5,
        -1,
        2,
        3,
        9,
        0,
        10**30,
        True,
        1.5j,
        np.float64(2.0),
        np.int64(3),
        float("nan"),
        "word",
        None,
        False,
        (1.0, 2.0, 3.0),
        np.array([True, False, True]),
        np.array([1, 2, 3]),
        np.array(2.0),
        np.float32(2.0),
        np.bool_(True),
    ]


COUNT = len(operands())
# The first so many are ours: one operand of each application must be.
TENSORS = 12

BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "add": gt.add,
    "subtract": gt.subtract,
    "maximum": gt.maximum,
    "pow": gt.pow,
    "matmul": gt.matmul,
    "+=": operator.iadd,
}
UNARY = {
    "neg": operator.neg,
    "abs": operator.abs,
    "sin": gt.sin,
    "sqrt": gt.sqrt,
    "square": gt.square,
    "floor": gt.floor,
    "not": gt.logical_not,
}

place = st.integers(0, 40)
step = st.one_of(
    st.tuples(st.sampled_from(sorted(BINARY)), place, place, st.booleans()),
    st.tuples(st.sampled_from(sorted(UNARY)), place),
)


def perform(program):
    """Run a program and say everything that the recording then holds."""
    recording = fresh()
    values = operands()
    given = len(values)
    notes = []
    for name, first, *others in program:
        ours = values[:TENSORS] + values[given:]
        x = ours[first % len(ours)]
        try:
            if others:
                y = values[others[0] % len(values)]
                pair = (y, x) if others[1] else (x, y)
                result = BINARY[name](*pair)
            else:
                result = UNARY[name](x)
        except Exception as error:
            notes.append((name, type(error), str(error)))
            continue
        notes.append((name, type(result)))
        if isinstance(result, gt.Tensor):
            values.append(result)
    recording = state.recording
    leaves = [
        leaf if isinstance(leaf, (bool, int, float, complex)) else leaf.array.tolist()
        for leaf in recording.leaves
    ]
    held = [(type(h), h.node, h.recording is recording) for h in recording.handles]
    return notes, recording.log, repr(leaves), held, recording.thread


@settings(max_examples=150, deadline=None)
@given(st.lists(step, min_size=1, max_size=12))
# A list as the left operand enters the recording before the tensor on its right.
@example([("!=", 0, 0, False), ("@", 1, 13, True)])
def test_same_as_in_python(program):
    with Recorder() as recorder:
        recorder.use(False)
        perform(program)
        expected = perform(program)
        recorder.use(True)
        for _ in range(3):
            assert perform(program) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BINARY))
@pytest.mark.parametrize("swapped", [False, True])
def test_every_pair_of_operands(name, swapped, recorder):
    programs = [[(name, x, y, swapped)] for x in range(TENSORS) for y in range(COUNT)]
    recorder.use(False)
    for program in programs:
        perform(program)
    expected = [perform(program) for program in programs]
    recorder.use(True)
    for _ in range(2):
        assert [perform(program) for program in programs] == expected


@pytest.mark.parametrize("name", sorted(UNARY))
def test_every_operand(name, recorder):
    programs = [[(name, x)] for x in range(TENSORS)]
    recorder.use(False)
    for program in programs:
        perform(program)
    expected = [perform(program) for program in programs]
    recorder.use(True)
    for _ in range(2):
        assert [perform(program) for program in programs] == expected


def test_functions_are_called_with_two_operands():
    with pytest.raises(TypeError):
        gt.add(gt.asarray(1.0))
    builtin = native._installed[0].functions
    binary = next(f for f in builtin if f.__name__ == "add")
    with pytest.raises(TypeError, match="positional argument"):
        binary(gt.asarray(1.0))


def test_operators_fill_the_slots_of_the_type():
    assert isinstance(vars(gt.Tensor)["__add__"], type(int.__add__))
    x = gt.asarray([1.0, 2.0])
    assert gt.Tensor.__sub__(x, 1.0).tolist() == [0.0, 1.0]
    assert x.__rsub__(1.0).tolist() == [0.0, -1.0]
    assert x.__rpow__(2.0).tolist() == [2.0, 4.0]
    assert x.__lt__(2.0).tolist() == [True, False]
    assert len({x: 1, x + 0.0: 2}) == 2


def test_modulus_is_refused(recorder):
    errors = []
    for on in (False, True):
        recorder.use(on)
        with pytest.raises(TypeError) as caught:
            pow(gt.asarray(2.0), 2, 3)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_subclass_with_its_own_operator():
    class Doubling(gt.Tensor):
        __slots__ = ()

        def __mul__(self, other):
            return super().__mul__(other) * 2.0

        def __rmul__(self, other):
            return super().__rmul__(other) * 3.0

    own = Doubling(None, None, gt.asarray([1.0]).computed)
    for _ in range(3):
        assert (own * 5.0).tolist() == [10.0]
        assert (5.0 * own).tolist() == [15.0]
        assert (gt.asarray([5.0]) * own).tolist() == [15.0]


def test_subclass_made_later_has_results_of_its_own():
    class Own(gt.Tensor):
        __slots__ = ()

    Own.result_class = Own
    own = Own(None, None, gt.asarray([1.0]).computed)
    for _ in range(3):
        assert type(own + 1.0) is Own
        assert type(gt.sin(own)) is Own
        assert type(1.0 - own) is Own


def test_views_give_tensors():
    x = gt.asarray([1.0, 2.0, 3.0])
    for _ in range(3):
        assert type(x[1:] + 1.0) is gt.Tensor


def test_repeated_application_is_a_twin():
    for _ in range(3):
        x = gt.asarray([2.0])
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            first, second = x * x, x * x
        assert first.node is not second.node
        assert tape.gradient(first, second, unconnected_gradients="none") is None


@pytest.mark.slow
def test_small_cache_entries_do_not_mix():
    # More applications than the cache has places, twice, with other scalars.
    x = gt.asarray([1.0])
    for scalar in (1.0, 2.0):
        for _ in range(2):
            fresh()
            y = x
            for number in range(9000):
                y = y + scalar if number % 3 else scalar - y
            assert y.tolist() == [expected_chain(scalar)]


def expected_chain(scalar):
    y = 1.0
    for number in range(9000):
        y = y + scalar if number % 3 else scalar - y
    return y


def test_eager_mode_computes_on_the_line():
    x = gt.asarray([1.0, 2.0])
    for _ in range(3):
        before = gt.counters().plans_run
        with gt.eager():
            y = -(x * 2.0)
            assert y.computed is not None
        assert gt.counters().plans_run - before == 2


def test_handles_of_other_and_closed_recordings():
    for _ in range(3):
        x = gt.asarray([1.0])
        y = x + 1.0
        fresh()
        assert (y * 2.0).tolist() == [4.0]
        z = x + 2.0
        z.numpy()
        assert (z * y).tolist() == [6.0]


def test_threads_record_for_themselves():
    shared = gt.asarray([1.0, 2.0])
    pending = shared * 3.0
    failures = []

    def work(number):
        try:
            for turn in range(300):
                y = shared
                for _ in range(20):
                    y = (y * 1.5 - number) / 1.5 + number / 1.5
                found = (y + pending).numpy()
                np.testing.assert_allclose(found, [4.0, 8.0], rtol=1e-9)
                if turn % 50 == 0:
                    fresh()
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        work(7)
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures, failures


@pytest.mark.parametrize("on", [False, True])
def test_collection_at_every_allocation(on, recorder):
    """Finalisers run wherever there is an allocation; tapes let go of recordings in them."""
    recorder.use(on)
    threshold = gc.get_threshold()
    for turn in range(60):
        x = gt.asarray([1.0 + turn, 2.0])
        gc.set_threshold(1)
        try:
            tape = gt.GradientTape(persistent=True)
            cycle = [tape]
            cycle.append(cycle)
            with tape:
                tape.watch(x)
                y = (1.0 - x * x) / 2.0 + x**3
            del tape, cycle
            if turn % 2:
                del y
                y = 1.0 - x
            w = (2.0 * (-y + x) - x).numpy()
        finally:
            gc.set_threshold(*threshold)
        a = x.numpy()
        b = 1 - a if turn % 2 else (1 - a**2) / 2 + a**3
        np.testing.assert_allclose(w, 2 * (a - b) - a)


CASES = {
    "unary": lambda x, y: -gt.sin(x),
    "binary": lambda x, y: x * y + x,
    "float": lambda x, y: x * 2.5,
    "int": lambda x, y: 2 * x,
    "reflected": lambda x, y: 1.0 / (1.5 - x),
    "function of a scalar": lambda x, y: gt.maximum(0.5, x),
    "power": lambda x, y: x**2 + x**3 + x**0.5 + 2.0**x,
    "comparison": lambda x, y: (x < y) == (x > 1.0),
    "twin": lambda x, y: x * y + x * y,
    "array": lambda x, y: x + np.ones(3),
    "variable": lambda x, y: x + VARIABLE,
    "no comparison": lambda x, y: x == None,  # noqa: E711
    "error": lambda x, y: refused(x),
    "view": lambda x, y: x[1:] * 2.0,
    "unknown cache": lambda x, y: forget_cache() or x * y,
    "strange class": lambda x, y: Noted(None, None, x.computed) + 1.0,
}


def refused(x):
    try:
        return x + gt.asarray([1.0, 2.0])
    except ValueError:
        return None


def forget_cache():
    state.recording.table.cache = None


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CASES))
def test_references_are_exact(name):
    """No object is left behind, and none is freed that is still in use."""
    body = CASES[name]
    x, y = gt.asarray([1.0, 2.0, 3.0]), gt.asarray([2.0, 3.0, 4.0])

    def run(turns):
        for _ in range(turns):
            recording = fresh()
            for _ in range(10):
                body(x, y)
            recording.close()
        fresh()
        gc.collect()

    def references():
        table = state.recording.table
        nodes = list(table.nodes.values())[-50:]
        things = [x, y, x.computed, table, table.nodes, gt.Tensor, float, Recording, *nodes]
        return [sys.getrefcount(thing) for thing in things]

    run(200)  # NumPy's and Python's own caches of small blocks are full then
    before, blocks = references(), sys.getallocatedblocks()
    run(200)
    assert references() == before
    # One block for each turn would be 200; threads of other tests leave some.
    assert sys.getallocatedblocks() - blocks < 180


def test_a_dead_thread_is_let_go():
    made = []

    def work():
        gt.asarray([1.0]) + 1.0
        made.append(state.recording)

    for _ in range(5):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    -gt.asarray(1.0)  # the native code now knows this thread only
    counts = [sys.getrefcount(recording) for recording in made]
    assert max(counts) - min(counts) == 0


def test_tensors_are_copied_and_pickled():
    x = gt.asarray([1.0, 2.0]) * 2.0
    assert copy.deepcopy(x).tolist() == [2.0, 4.0]
    assert copy.copy(x).tolist() == [2.0, 4.0]
    assert pickle.loads(pickle.dumps(x)).tolist() == [2.0, 4.0]


def test_functions_stay_functions():
    assert inspect.isfunction(gt.sin)
    assert str(inspect.signature(gt.add)) == "(x: 'TensorLike', y: 'TensorLike', /) -> 'Tensor'"
    assert ">>>" in gt.sin.__doc__
    assert pickle.loads(pickle.dumps(gt.sin)) is gt.sin
