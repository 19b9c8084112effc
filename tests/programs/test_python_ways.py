"""What programs are made of: containers, closures, recursion, generators, classes, errors."""

import collections
import contextlib
import dataclasses
import functools
import itertools

import numpy as np
import pytest
from tests.programs.running import Counted, all_ways, differences

import gradtape as gt

# Programs of one tensor that give a scalar, and the same for arrays.


def appended(x, xp):
    parts = []
    for power in range(1, 4):
        parts.append(x**power)
        parts.extend([xp.sin(parts[-1])])
    parts[0] = parts[0] * 3.0
    del parts[1]
    return sum(xp.sum(part) for part in reversed(parts))


def in_dicts(x, xp):
    found = {"first": x}
    found.update(second=found["first"] * 2.0)
    found["first"] = xp.exp(-found["first"])
    found.setdefault("third", found["second"] * found["first"])
    gone = found.pop("second")
    return sum(xp.sum(part) for part in found.values()) - xp.sum(gone)


def in_counters(x, xp):
    sums = collections.defaultdict(float)
    for place in range(len(x)):
        sums["even" if place % 2 == 0 else "odd"] += x[place] ** 2
    queue = collections.deque([sums["even"], sums["odd"]], maxlen=2)
    queue.append(sums["even"] * sums["odd"])
    return queue[0] + queue[1]


def closures(x, xp):
    total = x[0] * 0.0
    functions = []
    for number in range(3):

        def add(y, number=number):
            nonlocal total
            total = total + y * float(number + 1)
            return total

        functions.append(add)
    for place, function in enumerate(functions):
        function(x[place] ** 2)
    return total * total


def memoised(x, xp):
    known = {}

    def visit(left, right):
        """The best product of a parenthesis of sums, as in the order of matrix products."""
        if left == right:
            return x[left]
        if (left, right) not in known:
            known[left, right] = sum(
                visit(left, cut) * visit(cut + 1, right) for cut in range(left, right)
            )
        return known[left, right]

    return visit(0, len(x) - 1)


def cached(x, xp):
    @functools.cache
    def binomial(n, k):
        if k in (0, n):
            return x[0]
        return binomial(n - 1, k - 1) * x[1] + binomial(n - 1, k) * x[2]

    return binomial(5, 2)


def generated(x, xp):
    def powers(limit):
        value = xp.sum(x * x)
        while value < limit:
            value = value * 1.7
            yield value

    def weighted(values):
        weight = yield 0.0
        for value in values:
            weight = (yield value * weight) or 1.0

    total, stream = 0.0, weighted(powers(50.0))
    next(stream)
    with contextlib.suppress(StopIteration):
        while True:
            total = total + stream.send(0.5)
    return total + sum(value for value in powers(20.0))


def comprehended(x, xp):
    table = [[a * b for b in x] for a in x]
    diagonal = {place: table[place][place] for place in range(len(x))}
    big = [value for row in table for value in row if value > 0.5]
    return sum(big) + sum(diagonal.values())


def sliced_and_starred(x, xp):
    first, *middle, last = [x[place] for place in range(len(x))]
    pairs = list(itertools.pairwise(middle))
    lowest, highest = min(first, last), max(first, last)
    return sum(a * b for a, b in pairs) + lowest / (2.0 + highest)


def with_errors(x, xp):
    total = xp.sum(x * x)
    for place in range(len(x)):
        try:
            if x[place] < 0.0:
                raise ValueError(place)
            total = total + x[place]
        except ValueError as error:
            total = total - 2.0 * x[error.args[0]]
        else:
            total = total * 1.1
        finally:
            total = total + 0.1
    return total


def matched(x, xp):
    points = [("scale", x[0]), ("pair", x[1], x[2]), None]
    total = xp.sum(x)
    for point in points:
        match point:
            case ("scale", factor):
                total = total * factor
            case ("pair", a, b) if a > b:
                total = total + a
            case ("pair", a, b):
                total = total + b * b
            case None:
                total = total + 1.0
    return total


@dataclasses.dataclass
class Moments:
    """State that is replaced, and state that is changed in place."""

    count: int = 0
    mean: object = 0.0
    spread: object = 0.0

    def add(self, value):
        self.count += 1
        shift = value - self.mean
        self.mean = self.mean + shift / self.count
        self.spread = self.spread + shift * (value - self.mean)
        return self


def in_dataclasses(x, xp):
    moments = Moments()
    for value in [x[place] for place in range(len(x))]:
        moments.add(value)
    frozen = dataclasses.replace(moments, mean=moments.mean * 2.0)
    return moments.spread / moments.count + frozen.mean * moments.mean


class Shape:
    """Methods, properties, class methods, operators, inheritance."""

    scale = 2.0

    def __init__(self, x, xp):
        self.x, self.xp = x, xp

    @property
    def size(self):
        return self.xp.sum(self.x**2)

    @classmethod
    def unit(cls, x, xp):
        return cls(x / 3.0, xp)

    @staticmethod
    def double(x):
        return x + x

    def __add__(self, other):
        return type(self)(self.x + other.x, self.xp)

    def __call__(self, factor=1.0, *, power=1):
        return self.scale * self.double(self.size) * factor**power


class Square(Shape):
    scale = 3.0

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs) + 1.0


def in_classes(x, xp):
    shapes = [Shape(x, xp), Square.unit(x, xp), Square(x, xp) + Shape(x, xp)]
    values = [shapes[0](2.0), shapes[1](power=2), shapes[2](x[0], power=2)]
    return sum(sorted(values, key=lambda value: -value))


PROGRAMS = [
    appended, in_dicts, in_counters, closures, memoised, cached, generated, comprehended,
    sliced_and_starred, with_errors, matched, in_dataclasses, in_classes,
]  # fmt: skip
POINTS = ([0.5, 0.8, 0.3, 1.1], [-0.4, 0.9, 1.2, -0.7], [0.5, 0.8, 0.3, 1.1], [1.5, 0.2, 0.4, 0.1])


@pytest.mark.parametrize("way", all_ways(lambda x: x))
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_values_and_gradients(program, way):
    run = all_ways(lambda x: program(x, gt))[way]
    for point in POINTS:
        value, gradient = run(gt.asarray(point))
        assert float(value) == pytest.approx(program(np.array(point), np), rel=1e-10)
        slopes = differences(lambda x: program(x, np), point)
        np.testing.assert_allclose(gradient.numpy(), slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_known_values_run_without_python(program):
    counted = Counted(lambda x: program(x, gt))
    compiled = gt.function(counted)
    for point in POINTS * 2:
        compiled(gt.asarray(point))
    runs = counted.runs
    assert runs <= 2 * 3
    for point in POINTS:
        assert float(compiled(gt.asarray(point))) == pytest.approx(program(np.array(point), np))
    assert counted.runs == runs


class TestArguments:
    """Defaults, keywords, nests: two calls are of one kind only if Python would do the same."""

    @staticmethod
    def plain(x, a=2.0, *rest, k=3, **more):
        return x * a + sum(rest) + k + sum(value * len(name) for name, value in more.items())

    CALLS = (
        ((1.0,), {}),
        ((1.0, 5.0), {}),
        ((2.0, 4.0), {}),
        ((1.0, 5.0, 1.0, 2.0), {"k": 4}),
        ((1.0,), {"a": 2.5}),
        ((1.0,), {"k": 2.5}),
        ((1.0,), {"z": 2.5, "yy": 3.0}),
        ((1.0,), {"yy": 3.5, "z": 2.0}),
        ((3.0,), {"k": 7}),
    )

    @pytest.mark.filterwarnings("ignore:gt.function. plain has been captured")
    def test_all_ways_to_pass_arguments(self):
        compiled = gt.function(self.plain)
        for _ in range(3):
            for args, kwargs in self.CALLS:
                x = gt.asarray(args[0])
                assert float(compiled(x, *args[1:], **kwargs)) == self.plain(*args, **kwargs)

    @pytest.mark.slow
    def test_nests_of_parameters(self):
        def predict(parameters, x, *, activation="tanh"):
            for layer in parameters["layers"][:-1]:
                x = getattr(gt, activation)(x @ layer["w"] + layer["b"])
            return x @ parameters["layers"][-1]["w"] * parameters["scale"]

        rng = np.random.default_rng(0)
        parameters = {
            "layers": [
                {"w": gt.asarray(rng.standard_normal((3, 4))), "b": gt.asarray(np.ones(4))},
                {"w": gt.asarray(rng.standard_normal((4, 1)))},
            ],
            "scale": 2.0,
        }

        def loss(parameters, x, activation):
            return gt.sum(predict(parameters, x, activation=activation) ** 2)

        step = gt.function(gt.value_and_grad(loss))
        x = gt.asarray(rng.standard_normal((5, 3)))
        for activation in ("tanh", "sin", "tanh"):
            value, slopes = step(parameters, x, activation)
            expected, expected_slopes = gt.value_and_grad(loss)(parameters, x, activation)
            assert float(value) == pytest.approx(float(expected), rel=1e-12)
            for a, b in zip(
                gt.pytree.flatten(slopes)[0], gt.pytree.flatten(expected_slopes)[0], strict=True
            ):
                np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9)

    def test_a_function_of_functions(self):
        @gt.function
        def composed(x, functions):
            for function in functions:
                x = function(x)
            return x

        for functions in ([gt.sin, gt.exp], [gt.exp, gt.sin], [gt.sin, gt.exp], []):
            expected = 0.7
            for function in functions:
                expected = float(function(gt.asarray(expected)))
            assert float(composed(gt.asarray(0.7), functions)) == pytest.approx(expected)


class TestMethods:
    """Functions of objects: each object is its own."""

    class Counter:
        def __init__(self, step):
            self.total, self.step = gt.Variable(0.0), step

        @gt.function
        def add(self, x, times=1):
            for _ in range(times):
                self.total.assign_add(self.step * x)
            return self.total.value

        @functools.cached_property
        def doubled(self):
            return gt.function(lambda x: 2.0 * self.add(x))

    def test_each_object_has_its_own_state(self):
        counters = [self.Counter(1.0), self.Counter(10.0)]
        expected = [0.0, 0.0]
        for number in range(6):
            for place, counter in enumerate(counters):
                expected[place] += counter.step * number * 2
                assert float(counter.add(gt.asarray(float(number)), times=2)) == expected[place]
        for place, counter in enumerate(counters):
            expected[place] += counter.step
            assert float(counter.doubled(gt.asarray(1.0))) == 2.0 * expected[place]

    def test_objects_that_are_gone_are_not_kept(self):
        import gc
        import weakref

        gone = []
        for number in range(20):
            counter = self.Counter(float(number))
            counter.add(gt.asarray(1.0))
            counter.add(gt.asarray(1.0))
            gone.append(weakref.ref(counter))
        del counter
        gc.collect()
        assert all(reference() is None for reference in gone)
        assert self.Counter.add.captures < 5

    def test_a_method_tells_what_it_captured(self):
        counter = self.Counter(1.0)
        counter.add(gt.asarray(1.0))
        assert "kinds of calls" in counter.add.explain() or "kind of call" in counter.add.explain()


def test_generator_functions_stay_generators():
    @gt.function
    def multiples(x, count):
        for number in range(count):
            yield x * float(number)

    for x in (1.0, 2.0):
        assert [float(y) for y in multiples(gt.asarray(x), 3)] == [0.0, x, 2.0 * x]


def test_the_list_of_seed_003_grows_under_a_tape():
    history = []

    def step(x):
        history.append(x**2)
        history.append(x)
        return sum(history[-2:])

    x = gt.Variable(1.0)
    for run in (step, gt.function(step)):
        with gt.GradientTape() as tape:
            y = run(x)
        assert float(tape.gradient(y, x)) == 3.0
    assert [float(each) for each in history] == [1.0] * 4
