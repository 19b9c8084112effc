"""gt.save and gt.load: every kind of state comes back with all its bits, or is refused."""

import os
import threading
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays_of

import gradtape as gt
from gradtape.config import MAPPED_ARRAY_BYTES
from gradtape.training.storage import safetensors_file

ENDINGS = [".npz", ".safetensors"]
DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip


@pytest.fixture(params=ENDINGS)
def path(request, tmp_path):
    return tmp_path / f"state{request.param}"


def there_and_back(tree, path):
    gt.save(tree, path)
    return gt.load(path)


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Segment:
    start: Any
    end: Any


class Rope:
    def __init__(self, parts):
        self.parts = parts


for _cls in (Point, Segment):
    gt.storage.register(_cls)
gt.register_pytree(Rope, lambda r: (r.parts, len(r.parts)), lambda n, c: Rope(list(c)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_every_dtype_and_shape(path, dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    found = there_and_back([gt.asarray(array), gt.Variable(array), array], path)
    assert type(found[0]) is gt.Tensor
    assert type(found[1]) is gt.Variable
    assert type(found[2]) is np.ndarray
    for each in (found[0].numpy(), found[1].numpy(), found[2]):
        assert each.dtype == array.dtype
        assert each.shape == shape
        np.testing.assert_array_equal(each, array)
    assert found[2].flags.writeable
    assert not found[0].numpy().flags.writeable


NUMBERS = arrays_of.arrays(
    st.sampled_from([np.dtype(d) for d in (*DTYPES, "float16", ">f8", ">i4")]),
    arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.complex_numbers(), st.binary(max_size=8),
)  # fmt: skip
KEYS = st.one_of(st.text(max_size=5), st.integers(), st.tuples(st.text(max_size=2), st.integers()))
TREES = st.recursive(
    SCALARS | NUMBERS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=4),
        st.builds(Point, inner, inner),
    ),
    max_leaves=10,
)


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(tree=TREES, ending=st.sampled_from(ENDINGS))
def test_plain_trees_come_back(tmp_path_factory, tree, ending):
    path = tmp_path_factory.mktemp("trees") / f"tree{ending}"
    assert same(there_and_back(tree, path), tree)


def test_other_containers(path):
    tree = {
        "ordered": OrderedDict(a=1),
        "default": defaultdict(list, a=[1]),
        "set": {1, "b", None},
        "frozen": frozenset([1.5]),
        "segment": Segment([1], None),
        "rope": Rope([gt.asarray(1.0)]),
        "scalar": np.float32(0.1),
        "dtype": np.dtype("int8"),
        "long": [0.1 * n for n in range(1000)],
        "large": [2**80] * 100,
    }
    found = there_and_back(tree, path)
    assert type(found["ordered"]) is OrderedDict
    assert found["default"]["missing"] == []
    assert found["set"] == tree["set"]
    assert found["frozen"] == tree["frozen"]
    assert found["segment"] == tree["segment"]
    assert float(found["rope"].parts[0]) == 1.0
    assert found["scalar"] == np.float32(0.1)
    assert type(found["scalar"]) is np.float32
    assert found["dtype"] == np.int8
    assert found["long"] == tree["long"]
    assert found["large"] == tree["large"]


def test_shared_objects_stay_shared(path):
    v, array, row = gt.Variable([1.0, 2.0]), np.ones(3), [1]
    found = there_and_back({"a": [v, array, row], "b": [v, array, row]}, path)
    assert all(one is two for one, two in zip(found["a"], found["b"], strict=True))
    assert found["a"][0] is not v


def test_row_sparse_tensors_stay_sparse(path):
    table = gt.Variable(np.zeros((1000, 2)))
    with gt.GradientTape() as tape:
        y = gt.sum(gt.take(table, gt.asarray([3, 3, 7]), axis=0))
    found = there_and_back(tape.gradient(y, table), path)
    assert isinstance(found, gt.RowSparse)
    assert found.indices.tolist() == [3, 3, 7]
    assert found.shape == (1000, 2)
    assert found[3].tolist() == [2.0, 2.0]


def test_generators_go_on(path):
    ours, theirs = gt.random.Generator(3), np.random.default_rng(3)
    ours.uniform((5,))
    theirs.random(5)
    a, b = there_and_back((ours, theirs), path)
    assert a.uniform((5,)).tolist() == ours.uniform((5,)).tolist()
    assert b.random(5).tolist() == theirs.random(5).tolist()


def network():
    return gt.nn.Sequential(
        [
            gt.nn.Dense(4, "tanh", kernel_initializer=gt.nn.initializers.normal(seed=2)),
            gt.nn.Dropout(0.5, seed=1),
            gt.nn.LayerNorm(),
            gt.nn.Dense(1),
        ]
    )


def trained(steps=3):
    model = network()
    rate = gt.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    optimizer = gt.optimizers.AdamW(rate, clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model(np.ones((2, 3)))
    train(model, optimizer, steps)
    return model, optimizer


def train(model, optimizer, steps):
    x = np.random.default_rng(0).normal(size=(5, 3))
    for _ in range(steps):
        optimizer.minimize(lambda: gt.sum(model(x) ** 2), model.parameters())


def bits(model, optimizer):
    states = {**model.state_dict(), **optimizer.state_dict()}
    return [(name, array.tobytes()) for name, array in states.items()]


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_model_and_optimizer_go_on_alike(path, order):
    model, optimizer = trained()
    tree = dict([("model", model), ("optimizer", optimizer)][::order])
    found = there_and_back(tree, path)
    train(model, optimizer, 4)
    train(found["model"], found["optimizer"], 4)
    assert bits(model, optimizer) == bits(found["model"], found["optimizer"])


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_load_into_objects_that_are_not_built(path, order):
    model, optimizer = trained()
    gt.save(dict([("model", model), ("optimizer", optimizer)][::order]), path)
    fresh = network()
    rate = gt.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    other = gt.optimizers.AdamW(rate, clipnorm=1.0)
    found = gt.load(path, into=dict([("model", fresh), ("optimizer", other)][::order]))
    assert found["model"] is fresh
    assert found["optimizer"] is other
    train(model, optimizer, 4)
    train(fresh, other, 4)
    assert bits(model, optimizer) == bits(fresh, other)


def test_load_into_objects_that_were_used_keeps_their_cells(path):
    model, optimizer = trained()
    gt.save([model, optimizer], path)
    before = bits(model, optimizer)
    cells = [*model.variables, *optimizer.variables]
    train(model, optimizer, 5)
    assert bits(model, optimizer) != before
    gt.load(path, into=[model, optimizer])
    assert bits(model, optimizer) == before
    again = [*model.variables, *optimizer.variables]
    assert all(one is two for one, two in zip(cells, again, strict=True))


def test_captured_functions_follow_what_is_loaded(path):
    model, optimizer = trained()

    @gt.function
    def step(x):
        return optimizer.minimize(lambda: gt.sum(model(x) ** 2), model.parameters())

    x = np.ones((5, 3))
    for _ in range(3):
        step(x)
    gt.save([model, optimizer], path)
    wanted = [float(step(x)) for _ in range(40)]
    gt.load(path, into=[model, optimizer])
    assert [float(step(x)) for _ in range(40)] == wanted


def test_optimizer_alone_finds_its_variables_by_order(path):
    model, optimizer = trained()
    loaded = there_and_back(optimizer, path)
    twin = network()
    twin(np.ones((2, 3)))
    twin.load_state_dict(model.state_dict())
    twin.layers[1].generator.restore(model.layers[1].generator.state)
    loaded.build(twin.parameters())
    train(model, optimizer, 3)
    train(twin, loaded, 3)
    assert bits(model, optimizer) == bits(twin, loaded)


def test_slots_of_other_shapes_are_refused(path):
    _, optimizer = trained()
    loaded = there_and_back(optimizer, path)
    with pytest.raises(gt.errors.MismatchError, match="Build the variables in the order"):
        loaded.build([gt.Variable(np.zeros((7, 7)))])


def test_optimizer_with_some_of_its_variables_is_refused(path):
    model, optimizer = trained()
    with pytest.raises(gt.errors.UnsavableError, match="all of its variables, or alone"):
        gt.save([optimizer, model.layers[0]], path)
    assert not path.exists()


class Tower(gt.nn.Module):
    def __init__(self):
        self.base = gt.nn.Dense(2, in_features=2)
        self.top = gt.nn.Dense(2, in_features=2)
        self.top.below = self
        self.head = lambda x: x
        self.count = 0

    def call(self, x):
        self.count += 1
        return self.head(self.top(self.base(x)))


def test_modules_of_users_need_registration_to_be_made(path):
    tower = Tower()
    tower.count = 7
    gt.save(tower, path)
    with pytest.raises(gt.errors.MismatchError, match=r"Tower, which is not registered.*into=tree"):
        gt.load(path)
    other = Tower()
    gt.load(path, into=other)
    assert other.count == 7
    assert other.top.below is other
    np.testing.assert_array_equal(other.base.kernel.numpy(), tower.base.kernel.numpy())


def test_registered_module_and_function(path):
    class Scaled(gt.nn.Module):
        def __init__(self, f):
            self.f, self.w = f, gt.Variable(2.0)

    def twice(x):
        return 2.0 * x

    gt.storage.register(Scaled, name="tests.Scaled")
    gt.save(Scaled(twice), path)
    with pytest.raises(gt.errors.MismatchError, match="code is not saved"):
        gt.load(path)
    gt.storage.register(twice, name="tests.twice")
    gt.save(Scaled(twice), path)
    assert gt.load(path).f is twice


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [object()]}, r"tree\['a'\]\[0\] is a object"),
        (Point(1, threading.Lock()), r"tree\.y is a lock"),
        ([lambda: 0], r"tree\[0\] is the function .*code is not saved"),
        ([np.array(["text"])], r"tree\[0\] is an array of dtype <U4"),
        ([np.array([object()])], r"tree\[0\] is an array of dtype object"),
        ([np.ma.array([1])], r"tree\[0\] is a MaskedArray"),
        ({b"a": 1}, "key b'a'"),
        ([{(1, (2,)): 1}], "key"),
        ([{1j}], "not plain scalars"),
        ([open], "is the function"),
        ([np.longdouble(1.0)], "no plain number"),
        ([np.datetime64(1, "s")], "no plain number"),
    ],
)
def test_refused_with_place_and_nothing_written(path, value, where):
    with pytest.raises(gt.errors.UnsavableError, match=where):
        gt.save(value, path)
    assert os.listdir(path.parent) == []


def test_cycles_and_deep_nests_are_refused(path):
    row: list = []
    row.append(row)
    with pytest.raises(gt.errors.UnsavableError, match="contains itself"):
        gt.save({"row": row}, path)
    deep: list = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(gt.errors.UnsavableError, match="levels deep"):
        gt.save(deep, path)
    assert os.listdir(path.parent) == []


def test_a_failed_save_leaves_the_old_file(path, monkeypatch):
    gt.save([1], path)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        gt.save([2], path)
    monkeypatch.undo()
    assert gt.load(path) == [1]
    assert os.listdir(path.parent) == [path.name]


def test_load_into_is_all_or_nothing(path):
    a, b, g = gt.Variable([1.0]), gt.Variable([2.0]), gt.random.Generator(1)
    gt.save({"a": a, "g": g, "b": b}, path)
    a.assign([5.0])
    g.uniform((9,))
    place = g.state
    for other in (gt.Variable([1.0, 2.0]), gt.Variable(np.float32([1.0])), 3.0, [1.0]):
        with pytest.raises(gt.errors.MismatchError, match=r"tree\['b'\]"):
            gt.load(path, into={"a": a, "g": g, "b": other})
        assert a.numpy().tolist() == [5.0]
        assert g.state == place
    with pytest.raises(gt.errors.MismatchError, match="missing in the file: c"):
        gt.load(path, into={"a": a, "g": g, "b": b, "c": 1})
    with pytest.raises(gt.errors.MismatchError, match="only in the file: b"):
        gt.load(path, into={"a": a, "g": g})
    gt.load(path, into={"a": a, "g": g, "b": b})
    assert a.numpy().tolist() == [1.0]


def test_interrupted_load_is_taken_back(path, monkeypatch):
    model, optimizer = trained()
    gt.save([model, optimizer], path)
    train(model, optimizer, 2)
    before, calls = bits(model, optimizer), []
    assign = gt.Variable.assign

    def interrupted(self, value):
        calls.append(self)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return assign(self, value)

    monkeypatch.setattr(gt.Variable, "assign", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gt.load(path, into=[model, optimizer])
    monkeypatch.undo()
    assert bits(model, optimizer) == before


def test_sharing_must_agree(path):
    a, b = gt.Variable(1.0), gt.Variable(2.0)
    gt.save([a, a], path)
    with pytest.raises(gt.errors.MismatchError, match="an object of its own here"):
        gt.load(path, into=[a, b])
    gt.save([a, b], path)
    with pytest.raises(gt.errors.MismatchError, match="not in the file"):
        gt.load(path, into=[a, a])


def test_plain_data_may_change_its_size(path):
    w = gt.Variable(1.0)
    gt.save({"w": w, "losses": [3.0, 2.0], "best": gt.asarray([1.0, 2.0])}, path)
    found = gt.load(path, into={"w": w, "losses": [], "best": None})
    assert found["losses"] == [3.0, 2.0]
    assert found["w"] is w


def test_saving_does_not_touch_tapes_or_pending_work(path):
    w = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = w * w
        gt.save({"w": w, "y": y}, path)
        z = y * 2.0
    assert float(tape.gradient(z, w)) == 12.0
    assert float(gt.load(path)["y"]) == 9.0


def test_no_value_inside_vmap(path):
    def f(x):
        gt.save([x], path)
        return x

    with pytest.raises(gt.errors.NoValueError):
        gt.vmap(f)(np.ones(3))
    assert not path.exists()


def test_large_tensors_are_mapped(tmp_path):
    path = tmp_path / "large.safetensors"
    array = np.random.default_rng(0).normal(size=(1 << 18) + 3)
    gt.save([gt.asarray([1.0]), gt.asarray(array)], path)
    small, mapped = gt.load(path)
    assert mapped.numpy().base is not None
    assert small.numpy().nbytes < MAPPED_ARRAY_BYTES <= mapped.numpy().nbytes
    wanted = gt.load(path, mmap=False)[1]
    # The file is replaced, not written over: what is mapped stays.
    gt.save([1], path)
    np.testing.assert_array_equal(mapped.numpy(), array)
    with gt.deterministic():
        assert float(gt.sum(gt.sin(mapped))) == float(gt.sum(gt.sin(wanted)))


def test_checksums_can_be_skipped(tmp_path):
    path = tmp_path / "w.safetensors"
    gt.save([gt.asarray([1.0, 2.0])], path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(gt.errors.DamagedFileError, match="does not match its checksum"):
        gt.load(path)
    assert gt.load(path, verify=False)[0].tolist() != [1.0, 2.0]


def test_paths(tmp_path):
    with pytest.raises(ValueError, match=r"does not end in \.safetensors or \.npz"):
        gt.save([1], tmp_path / "state.pkl")
    with pytest.raises(TypeError, match="is not a path"):
        gt.save([1], 7)
    with pytest.raises(FileNotFoundError):
        gt.load(tmp_path / "nothing.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(IsADirectoryError):
        gt.save([1], tmp_path / "folder.npz")
    assert sorted(os.listdir(tmp_path)) == ["folder.npz"]


def test_without_safetensors(tmp_path, monkeypatch):
    gt.save([1], tmp_path / "a.safetensors")
    monkeypatch.setattr(safetensors_file, "find_spec", lambda name: None)
    for call in (lambda p: gt.save([1], p), gt.load):
        with pytest.raises(ImportError, match=r"pip install gradtape\[storage\]"):
            call(tmp_path / "a.safetensors")
    with gt.Checkpointer(tmp_path / "run") as checkpoints:
        checkpoints.save(0, [1])
        checkpoints.wait()
        assert (tmp_path / "run" / "checkpoint-0000000000.npz").exists()
        assert checkpoints.restore().tree == [1]


def test_umask_is_respected(path):
    before = os.umask(0o027)
    try:
        gt.save([1], path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_tensors_of_the_tensorflow_face(path):
    tree = {"v": gt.tf.Variable([1.0, 2.0], name="v"), "t": gt.tf.constant([1, 2])}
    found = there_and_back(tree, path)
    assert type(found["v"]) is gt.tf.Variable
    assert found["v"].name == "v:0"
    assert isinstance(found["t"], gt.tf.Tensor)
    assert found["t"].numpy().tolist() == [1, 2]
