"""What the distributed room is made of, without a cluster: sums, rows, programs, functions."""

import itertools
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gradtape as gt
from gradtape.distributed import (
    functions_sent,
    gradient_parts,
    pairwise,
    random_streams,
    ray_cluster,
)
from gradtape.distributed.report import Cost, Report
from gradtape.export import (
    NotExportableError,
    exported,
    install_kernel_files,
    kernel_files,
)


@given(st.integers(1, 20), st.data())
def test_sums_do_not_depend_on_who_holds_which_shard(count, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, count), max_size=5)) | {0, count})
    values = {(n, n + 1): f"{n}" for n in range(count)}

    def join(a, b):
        return f"({a}+{b})"

    expected = pairwise.total((0, count), values, join)
    known = {}
    for low, high in itertools.pairwise(cuts):
        for span in pairwise.largest_spans(0, count, low, high):
            known[span] = pairwise.total(span, values, join)
    assert pairwise.total((0, count), known, join) == expected


def test_a_missing_shard_is_an_error():
    with pytest.raises(KeyError, match="shard 1"):
        pairwise.total((0, 2), {(0, 1): 1.0}, lambda a, b: a + b)


@given(st.lists(st.integers(0, 5), max_size=12))
def test_merged_rows_add_equal_indices(indices):
    values = np.arange(2.0 * len(indices)).reshape(-1, 2)
    dense = np.zeros((6, 2))
    np.add.at(dense, np.array(indices, int), values)
    found = np.zeros((6, 2))
    rows, merged = gradient_parts.merged_rows(np.array(indices, int), values)
    assert len(set(rows.tolist())) == len(rows)
    found[rows] = merged
    np.testing.assert_allclose(found, dense)


def test_buckets_cover_everything_and_give_the_arrays_back():
    shapes, dtypes = [(3, 4), (7,), (2, 2), ()], ["float32", "float64", "float32", "float64"]
    layout = gradient_parts.GradientLayout(tuple(shapes), tuple(dtypes), frozenset({1}), bucket=16)
    assert layout.buckets == 5
    arrays = [np.random.default_rng(n).normal(size=s).astype(d) for n, (s, d) in
              enumerate(zip(shapes, dtypes, strict=True))]  # fmt: skip
    flat = layout.flat(arrays, 1.0)
    whole = [gradient_parts.whole([p], 1) for p in gradient_parts.partial_sums({0: flat}, 1)]
    found = layout.arrays(whole)
    assert set(found) == {0, 2, 3}
    for number, array in found.items():
        np.testing.assert_array_equal(array, arrays[number])


FUNCTIONS = {
    "elementwise": lambda x: gt.sin(x) * 2.5 + gt.exp(-x),
    "reduction": lambda x: {"sum": gt.sum(x), "rows": (x[::2], gt.sort(x))},
    "gradient": gt.grad(lambda x: gt.sum(gt.tanh(x) ** 3)),
    "loop": lambda x: gt.fori_loop(0, 3, lambda i, v: gt.sin(v) * x + i, x),
    "branch": lambda x: gt.cond(gt.sum(x) > 0, lambda: x * 2.0, lambda: -x),
    "scan": lambda x: gt.scan(lambda c, v: (c + v, c * v), gt.zeros(()), x),
    "matrix": lambda x: gt.linalg.solve(gt.eye(5) + gt.outer(x, x), x),
    "jacobian": gt.jacobian(lambda x: x[1:] * x[:-1]),
    "vmap": gt.vmap(lambda x: gt.where(x > 0.5, x, gt.cos(x))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_that_travelled_computes_the_same(name):
    f, x = FUNCTIONS[name], np.linspace(0.1, 1.0, 5)
    sent = pickle.loads(pickle.dumps(exported(f, x))).compile()
    other = x[::-1].copy()
    expected = [np.asarray(leaf.numpy()) for leaf in gt.pytree.flatten(f(gt.asarray(other)))[0]]
    found = gt.pytree.flatten(sent(other))[0]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_values_from_outside_travel_with_the_program():
    weights, array = gt.Variable([1.0, 2.0]), np.array([3.0, 4.0])
    program = exported(lambda x: x * weights + array, np.ones(2))
    weights.assign([100.0, 100.0])
    assert program(np.array([1.0, 10.0])).tolist() == [4.0, 24.0]


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: x if x[0] > 0 else -x, "NoValueError"),
        (lambda x: x + gt.random.normal((5,)), "random"),
        (lambda x: gt.py_function(np.sin, [x], gt.float64), "no value|calls"),
        (lambda x: "text", "returns a str"),
    ],
)
def test_what_is_no_program_is_refused(f, why):
    with pytest.raises(NotExportableError, match=why):
        exported(f, np.linspace(0.0, 1.0, 5))


def test_a_refused_function_leaves_the_random_stream_alone():
    gt.random.seed(4)
    first = gt.random.get_state()
    with pytest.raises(NotExportableError):
        exported(lambda x: x + gt.random.normal((5,)), np.ones(5))
    assert gt.random.get_state() == first


def test_an_object_that_cannot_be_pickled_is_named():
    pytest.importorskip("cloudpickle")
    lock = threading.Lock()
    inside = {"deep": [lock]}

    def f(x):
        return x if inside else lock

    with pytest.raises(TypeError, match=r"variable '(inside\.deep\.0|lock)'.*cannot be pickled"):
        functions_sent.send("map", f)


def test_variables_from_outside_are_named():
    weights = gt.Variable(1.0)
    model = gt.nn.Dense(1, in_features=2)

    def inner(x):
        return x * weights

    def f(x):
        return inner(model(x))

    found = [path for path, _ in functions_sent.variables_in(f)]
    assert sorted(found) == ["inner.weights", "model.bias", "model.kernel"]
    with pytest.raises(ValueError, match=r"inner\.weights.*copy_variables=True"):
        gt.distributed.map(f, [1.0])
    with pytest.raises(ValueError, match="weights"):
        gt.distributed.map(gt.function(inner), [1.0])


def test_a_missing_ray_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'gradtape\[ray\]'.*executor="):
        gt.distributed.map(abs, [1])


def test_an_old_ray_is_refused(monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setattr(ray, "__version__", "2.9.1")
    with pytest.raises(ImportError, match=r"older than 2\.50"):
        ray_cluster.load_ray("map")


def test_streams_differ_by_item_and_repeat():
    states = [random_streams.stream(3, n) for n in range(50)]
    assert len(set(states)) == 50
    assert states == [random_streams.stream(3, n) for n in range(50)]
    assert random_streams.stream(4, 0) != states[0]


def test_the_report_finds_stragglers():
    report = Report("map")
    for seconds in (1.0, 1.1, 0.9, 1.0, 5.0, 1.0):
        report.add(Cost(seconds, traced=1, pid=1))
    assert (report.stragglers, report.tasks, report.traced) == (1, 6, 6)
    assert "stragglers 1" in str(report)


def test_kernel_files_go_to_another_folder(tmp_path, monkeypatch):
    folders = [tmp_path / name for name in ("driver", "worker")]
    for folder in folders:
        folder.mkdir(mode=0o700)
    monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", str(folders[0]))
    exported(lambda x: gt.sin(x) * gt.cos(x) / 3.25, np.ones(9)).compile()
    files = kernel_files()
    assert files
    monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", str(folders[1]))
    assert install_kernel_files(files) == len(files)
    assert install_kernel_files(files) == 0
    code = """
import numpy as np, gradtape as gt
from gradtape.export import exported
exported(lambda x: gt.sin(x) * gt.cos(x) / 3.25, np.ones(9)).compile()
print(gt.counters().kernels_compiled, gt.counters().kernels_loaded > 0)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split() == ["0", "True"], result.stderr


@pytest.mark.parametrize("name", ["../escape", "a/b"])
def test_kernel_files_stay_in_their_folder(name, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", str(tmp_path))
    tmp_path.chmod(0o700)
    assert install_kernel_files({name: b"anything"}) == 0


def test_a_copied_optimizer_keeps_its_slots():
    w = gt.Variable([1.0, 2.0])
    optimizer = gt.optimizers.Adam(0.1)
    optimizer.minimize(lambda: gt.sum(w * w), [w])
    v, copy = pickle.loads(pickle.dumps((w, optimizer)))
    for variable, own in ((w, optimizer), (v, copy)):
        own.minimize(lambda variable=variable: gt.sum(variable * variable), [variable])
    assert v.numpy().tolist() == w.numpy().tolist()
    assert [name for name, _ in copy.named_variables()] == [
        "iterations", "learning_rate", "momentum.0", "velocity.0",
    ]  # fmt: skip
