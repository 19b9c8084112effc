"""Nothing native reads memory that it does not hold a reference to.

Functions, tensors, variables and caches are dropped in the middle of native calls, by everything
that can run Python code there: comparisons of guards, finalisers, callbacks of weak references and
of the collector, and other threads. The programs run in processes of their own under
`PYTHONMALLOC=debug`, which fills freed memory, with a collection at almost every allocation.
"""

import os
import subprocess
import sys

import pytest

from gradtape.compiler.cpython import objects
from gradtape.runtime import tiers

pytestmark = pytest.mark.skipif(
    not objects.supported() or tiers.MODE == "off", reason="not for this interpreter"
)

BEGINNING = """
import ctypes, gc, sys, threading, warnings, weakref
import numpy as np, gradtape as gt

warnings.simplefilter("ignore")
sys.unraisablehook = lambda ignored: failures.append(ignored.exc_value)
failures = []
rounds = int(sys.argv[1])
A = gt.asarray

from collections import deque  # which native code leaves to Python
from gradtape.jit.guards import guards as comparisons

class Compared:
    '''A number that a function reads outside; comparing it with another runs a hook, once.'''
    hook = None
    def __new__(cls, number): return float(str(number))

def is_other(now, seen, real=comparisons.is_other):
    if Compared.hook is not None:
        hook, Compared.hook = Compared.hook, None
        hook()
    return real(now, seen)

comparisons.is_other = is_other

class Dropped:
    '''Runs a hook when it is dropped.'''
    def __init__(self, hook): self.hook = hook
    def __del__(self): self.hook()

def warm(f, *args, calls=8):
    for _ in range(calls):
        found = f(*args)
    return found

def natively(f):
    return sum(each.calls for each in f.native_contexts[1:])

from gradtape.compiler.cpython.call_context import CONTEXT
from gradtape.dtypes import World

def misleading(words):
    '''The words of a context that looks valid, with tables of one row at bad addresses.'''
    good = {"thread", "world", "live", "busy", "held", "row", "input", "owner", "differs"}
    bad = {name: 1 if name + "s" in CONTEXT or name[:-1] + "_rows" in CONTEXT else 0x1234560
           for name in CONTEXT}
    return [each if name in good else bad[name] for name, each in zip(CONTEXT, words)]

def churn():
    '''Free what can be freed, and take its memory.'''
    gc.collect()
    return [bytearray(size) for size in (16, 48, 64, 200, 400) for _ in range(20)]
"""

PROGRAMS = {}

PROGRAMS["contexts exchanged while they are compared"] = """
# A guard's comparison gives the function other contexts; the old ones are freed.
for number in range(2 * rounds):
    factors = deque([Compared(2)])
    f = gt.function(lambda x: x * factors[0])
    xs = {n: A(np.ones(n)) for n in range(1, 13)}
    for n in range(1, 9):
        warm(f, xs[n])
    assert natively(f)
    words = [misleading(list(each._words)) for each in f.native_contexts[1:]]
    def hook():
        gt.set_default_dtype(gt.float32)
        gt.set_default_dtype(gt.float64)
        warm(f, xs[12])
        churn()
        for each in words:
            each[CONTEXT.index("world")] = World.number[0]
        filled.extend((ctypes.c_int64 * len(each))(*each) for each in words * 50)
    filled = []
    Compared.hook = hook
    factor = 2 + number % 2
    factors[0] = Compared(factor)
    assert f(xs[1]).tolist() == [factor]
    assert Compared.hook is None
"""

PROGRAMS["everything dropped in a comparison"] = """
for number in range(rounds):
    factors, v = deque([Compared(2)]), gt.Variable(np.zeros(3))
    t = A(np.ones(3))
    holder = {}
    holder["f"] = gt.function(lambda x, y: v.assign_add(x * factors[0] * t + y["k"][0]).value)
    f = holder["f"]
    arguments = [A(np.ones(3)), {"k": [A(np.ones(3))]}]
    warm(f, *arguments)
    assert natively(f)
    v.assign(np.zeros(3))
    def hook():
        global t
        # The entries of containers, the function, plans and pools go; the variable is assigned.
        arguments[1]["k"].clear()
        arguments[1].clear()
        arguments.clear()
        holder.clear()
        if number % 2:
            call.native_contexts = (b"",)
        gt.clear_plans()
        gt.empty_cache()
        v.assign(np.full(3, 10.0))
        churn()
    Compared.hook = hook
    factors[0] = Compared(2)
    call, f = f, None
    found = call(arguments[0], arguments[1])
    del call
    assert Compared.hook is None
    assert found.tolist() == [13.0] * 3 == v.value.tolist(), (found, v)
"""

PROGRAMS["a function dropped by its own comparison"] = """
for number in range(rounds):
    holder = [None, Compared(2)]
    def make():
        inner = holder
        return gt.function(lambda x: gt.sin(x) * inner[1])
    holder[0] = make()
    x = A(np.ones(4))
    for _ in range(8):
        holder[0](x)
    def hook():
        holder[0] = None
        gc.collect()
        churn()
    Compared.hook = hook
    holder[1] = Compared(2)
    found = holder[0](x)
    assert Compared.hook is None
    np.testing.assert_allclose(found.numpy(), 2.0 * np.sin(1.0))
"""

PROGRAMS["finalisers of old values"] = """
# The values that a step replaces are dropped at its end, in the middle of the release of others.
variables = [gt.Variable(np.zeros(3)) for _ in range(4)]
def step(x):
    for variable in variables:
        variable.assign_add(x)
    return variables[0].value
f = gt.function(step)
x = A(np.ones(3))
warm(f, x)
for number in range(rounds):
    kept = []
    def again():
        global f
        if number % 3 == 0:
            f(x)
        elif number % 3 == 1:
            f = gt.function(step)
            gc.collect()
        else:
            gt.clear_plans()
            kept.append(variables[0].value + 1.0)
        churn()
    for variable in variables:
        weakref.finalize(variable._handle, again)
    before = float(variables[1].value[0])
    extra = 4 * (number % 3 == 0)
    warm(f, x, calls=3)
    now = {float(variable.value[0]) for variable in variables}
    assert now == {before + 3.0 + extra}, (number, before, now)
    warm(f, x)
assert natively(f)
"""

PROGRAMS["finalisers of arguments"] = """
# An argument that nothing else holds is dropped at the end of the call.
class Noted(gt.Tensor):
    __slots__ = ("end",)
f = gt.function(lambda x, y: (x * 2.0, [y, x + y]))
seen = []
for number in range(10 * rounds):
    x = Noted(None, None, A(np.ones(3)).computed)
    x.end = Dropped(lambda: (seen.append(1), f(A(np.ones(3)), A(np.ones(3))), churn()))
    found = f(x, A(np.ones(3)))
    del x, found
    if number % 7 == 0:
        gt.clear_plans()
assert len(seen) == 10 * rounds
"""

PROGRAMS["the collector's callbacks"] = """
# A collection may begin at any allocation of native code. (It must not record: the closures of the
# recorder in Python cannot be interrupted by others that record.)
state = {"f": None, "count": 0, "box": []}
v = gt.Variable(np.zeros(300))
def new():
    return gt.function(lambda box, r: {"a": v.assign_add(box[0] * r).value, "b": (box[0] - r,)})
def callback(phase, info):
    if phase == "stop":
        state["count"] += 1
        state["box"].clear()
        if state["count"] % 50 == 0:
            state["f"] = new()
            gt.clear_plans()
            gt.empty_cache()
state["f"] = new()
for _ in range(20):
    state["f"]([A(np.ones(300))], 1.0)
done = 0
for number in range(100 * rounds):
    box = state["box"] = [A(np.ones(300))]
    gc.set_threshold(1 + number % 7)
    gc.callbacks.append(callback)
    try:
        found = state["f"](box, 1.0)
    except (IndexError, ValueError):
        # The box was emptied before the call.
        continue
    finally:
        gc.callbacks.remove(callback)
        gc.set_threshold(700)
    assert not found["b"][0].numpy().any()
    done += 1
    y = x = A(np.ones(2))
    for _ in range(5):
        y = (y + x) * 0.5 - 0.0
    assert y.tolist() == [1.0, 1.0]
assert done and state["count"]
"""

PROGRAMS["other threads"] = """
# While one thread computes without the GIL, others drop and exchange what it uses.
size, stop, wrong = 60_000, threading.Event(), []
shared = {"f": None, "v": gt.Variable(np.ones(size))}
def new():
    v = shared["v"]
    return gt.function(lambda box: gt.sin(box[0]) * 0.0 + v * box[0])
shared["f"] = new()
def work():
    while not stop.is_set():
        try:
            box = shared["box"] = [A(np.ones(size))]
            found = shared["f"](box).numpy()
            if (found != 1.0).any():
                wrong.append(found[found != 1.0])
        except (IndexError, ValueError):
            pass  # The box was emptied before the call.
        except RuntimeError as error:
            # It was emptied while a capture read it.
            if "another thread changed a list" not in str(error):
                wrong.append(error)
        except BaseException as error:
            wrong.append(error)
def drop(number):
    shared["box"].clear()
    # New memory for the variable: the old is freed, and written to by others.
    shared["v"].assign(np.ones(size))
    other = np.full(size, 7.0)
    if number % 40 == 0:
        shared["v"] = gt.Variable(np.ones(size))
        shared["f"] = new()
    if number % 50 == 0:
        gt.clear_plans()
        gt.empty_cache()
    if number % 70 == 0:
        gt.set_num_threads(1 + number % 3)
sys.setswitchinterval(1e-4)
for number in range(3 * rounds):
    stop.clear()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads: thread.start()
    while "box" not in shared: pass
    for each in range(100):
        drop(each)
    stop.set()
    for thread in threads: thread.join()
assert not wrong, wrong[:3]
"""

PROGRAMS["one function in many threads"] = """
# Each thread makes contexts of the same function, so that old ones are freed in others' calls.
f = gt.function(lambda x: gt.sin(x) + 1.0)
wrong = []
sys.setswitchinterval(1e-5)
def work(number):
    try:
        xs = [A(np.zeros(n)) for n in range(1, 12)]
        for _ in range(rounds):
            for x in xs:
                if warm(f, x, calls=3).tolist() != [1.0] * x.size:
                    wrong.append(number)
    except BaseException as error:
        wrong.append(error)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong, wrong[:3]
"""

PROGRAMS["callbacks into Python"] = """
# The body of a callback runs in the middle of a plan.
held = {}
def body(x):
    held["f"] = None
    gt.clear_plans()
    gc.collect()
    churn()
    return np.asarray(x) * 2.0
def new():
    return gt.function(lambda x: gt.sin(gt.pure_callback(body, gt.ones(3).spec, x)) * 0.0 + x)
for number in range(rounds):
    held["f"] = new()
    x = A(np.ones(3))
    for _ in range(6):
        f = held["f"] or new()
        assert f(x).tolist() == [1.0] * 3
        del f
"""

PROGRAMS["hashes of static arguments"] = """
class Static:
    hook = None
    def __init__(self, n): self.n = n
    def run(self):
        if Static.hook is not None:
            hook, Static.hook = Static.hook, None
            hook()
    def __hash__(self):
        self.run()
        return hash(self.n)
    def __eq__(self, other):
        self.run()
        return isinstance(other, Static) and self.n == other.n
def new():
    return gt.function(lambda x, s: x * s.n, static_argnames="s")
for number in range(rounds):
    f = new()
    x = A(np.ones(3))
    warm(f, x, Static(2.0))
    def hook():
        global f
        f = new()
        gt.clear_plans()
        gc.collect()
        churn()
    Static.hook = hook
    assert f(x, Static(2.0)).tolist() == [2.0] * 3
    assert Static.hook is None
"""

PROGRAMS["recording while nodes and tables go"] = """
# The native recorder: operands whose classes, recordings and tables are dropped under it.
class Other(gt.Tensor):
    __slots__ = ()
Other.result_class = Other
from gradtape.ir import node
for number in range(rounds):
    x = A(np.ones(3))
    for _ in range(12):
        y = (x * 2.0 + x) ** 2 - 1
        z = Other(None, None, (y + 0.0).computed or A(np.full(3, 8.0)).computed) @ x
        with gt.GradientTape() as tape:
            tape.watch(x)
            loss = gt.sum(x * x * 3.0)
        gradient = tape.gradient(loss, x)
        assert gradient.tolist() == [6.0] * 3
    assert y.tolist() == [8.0] * 3
    # A new table for this thread: the old one dies with its cache and its nodes.
    del y, z, loss, gradient, tape
    gt.clear_plans()
    node.exchange(node.Table())
    gt.evaluate(x + 1.0)
    gc.collect()
    churn()
"""


# `make test-native-memory` runs each program on its own, for longer.
ROUNDS = int(os.environ.get("GRADTAPE_OWNERSHIP_ROUNDS", "1"))
TOGETHER = [list(PROGRAMS)] if ROUNDS == 1 else [[name] for name in PROGRAMS]


@pytest.mark.slow
@pytest.mark.parametrize("names", TOGETHER, ids=" ".join)
def test_dropped_in_the_middle_of_a_call(names):
    parts = [f"exec({PROGRAMS[name]!r}, globals())" for name in names]
    program = "\n".join([BEGINNING, *parts, "assert not failures, failures"])
    command = [sys.executable, "-X", "dev", "-X", "faulthandler", "-c", program, str(ROUNDS)]
    debugging = {"PYTHONMALLOC": "debug", "GRADTAPE_RECORDER": "native", "GRADTAPE_JIT": "wait"}
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | debugging)
    assert result.returncode == 0, result.stderr[-3000:]
