"""Memory is used again when, and only when, its last holder is gone."""

import copy
import gc
import operator
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradtape.runtime import buffer_pool as buffers

SIZES = [0, 1, 64, 100, 5000, 65_536, 65_537, 1 << 20, (1 << 22) + 3]


@pytest.fixture(autouse=True)
def empty_pool():
    gc.collect()
    buffers.empty_cache()


def difference(before):
    after = buffers.pool_counts()
    return {name: value - getattr(before, name) for name, value in vars(after).items()}


@pytest.mark.parametrize("nbytes", SIZES)
def test_memory_comes_back(nbytes):
    before = buffers.pool_counts()
    first = buffers.allocate(nbytes)
    address, capacity = first.address, first.capacity
    assert difference(before)["bytes_allocated"] == capacity
    assert difference(before)["bytes_held"] == 0
    del first
    assert difference(before)["bytes_held"] == capacity
    second = buffers.allocate(nbytes)
    assert second.address == address
    assert difference(before) == {
        "bytes_allocated": capacity,
        "bytes_recycled": capacity,
        "bytes_returned": 0,
        "bytes_held": 0,
    }


@pytest.mark.parametrize("nbytes", SIZES)
def test_alignment(nbytes):
    held = [buffers.allocate(nbytes) for _ in range(3)]
    unit = 4096 if nbytes >= buffers.LARGE_BUFFER else buffers.ALIGNMENT
    assert all(each.address % unit == 0 for each in held)
    assert len({each.address for each in held}) == 3


@given(st.integers(0, 1 << 45))
def test_capacity_wastes_little(nbytes):
    capacity = buffers.capacity_for(nbytes)
    assert capacity >= max(nbytes, 1)
    assert capacity % buffers.ALIGNMENT == 0
    assert capacity <= max(nbytes * 1.25 + 1, nbytes + buffers.ALIGNMENT)
    assert buffers.capacity_for(capacity) == capacity


def test_capacities_looked_up_are_those_computed():
    for nbytes in [*range(2000), *range(60_000, 70_000, 7)]:
        assert buffers.allocate(nbytes).capacity == buffers.capacity_for(nbytes)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (4, 0, 2)])
def test_array_is_the_memory(dtype, shape):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = buffers.allocate(size)
    array = buffer.array(shape, dtype)
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert array.ctypes.data == buffer.address
    array[...] = 1
    again = buffer.array(shape, dtype)
    assert np.all(again == 1)


@pytest.mark.parametrize("nbytes", [800, 8_000_000])
def test_views_keep_the_memory(nbytes):
    buffer = buffers.allocate(nbytes)
    address, capacity = buffer.address, buffer.capacity
    array = buffer.array((nbytes // 8,), "float64")
    array[:] = 3.0
    view = array[5:].reshape(-1, 5).T[1:, ::2].view("int64").view("float64")
    del buffer, array
    gc.collect()
    before = buffers.pool_counts()
    others = [buffers.allocate(nbytes) for _ in range(4)]
    assert address not in {each.address for each in others}
    for each in others:
        each.array((nbytes // 8,), "float64")[:] = 0.0
    assert np.all(view == 3.0)
    assert difference(before)["bytes_recycled"] == 0
    del view
    assert buffers.allocate(nbytes).address == address
    assert difference(before)["bytes_recycled"] == capacity


def test_memoryview_keeps_the_memory():
    buffer = buffers.allocate(80)
    address = buffer.address
    exported = memoryview(buffer.array((10,), "float64"))
    del buffer
    other = buffers.allocate(80)
    assert other.address != address
    del exported
    assert buffers.allocate(80).address == address


def test_empty_cache_returns_all_that_is_idle():
    kept = buffers.allocate(1000)
    idle = [buffers.allocate(nbytes) for nbytes in SIZES]
    total = sum(map(operator.attrgetter("capacity"), idle))
    del idle
    before = buffers.pool_counts()
    assert before.bytes_held == total
    buffers.empty_cache()
    assert difference(before)["bytes_returned"] == total
    assert buffers.pool_counts().bytes_held == 0
    kept.array((1000,), "uint8")[:] = 1


def test_limit_returns_sizes_not_asked_for_lately(monkeypatch):
    buffers.allocate(1)
    limit = (10 << 20) + 4096
    monkeypatch.setattr(buffers, "_limit", [buffers._recycled[0] + limit])
    small = buffers.allocate(100)
    del small
    old = [buffers.allocate(2 << 20) for _ in range(4)]
    del old
    before = buffers.pool_counts()
    assert before.bytes_held >= 8 << 20
    recent = [buffers.allocate(3 << 20) for _ in range(2)]
    assert difference(before)["bytes_returned"] == 4 << 20
    del recent
    held = [buffers.allocate(3 << 20) for _ in range(2)]
    assert difference(before)["bytes_recycled"] == 6 << 20
    del held
    assert difference(before)["bytes_held"] == 2 << 20


def test_memory_beyond_the_limit_goes_with_its_holder(monkeypatch):
    buffers.allocate(1)
    buffers.empty_cache()
    monkeypatch.setattr(buffers, "_limit", [buffers._recycled[0] + (5 << 20)])
    before = buffers.pool_counts()
    held = [buffers.allocate(2 << 20).array((1 << 18,), "float64") for _ in range(4)]
    for number, each in enumerate(held):
        each[:] = number
    assert [float(each.sum()) / each.size for each in held] == [0, 1, 2, 3]
    assert difference(before)["bytes_returned"] == 0
    del held, each
    change = difference(before)
    assert (change["bytes_returned"], change["bytes_held"]) == (4 << 20, 4 << 20)


def test_limit_of_zero_keeps_nothing(monkeypatch):
    buffers.allocate(1)
    buffers.empty_cache()
    monkeypatch.setattr(buffers, "_limit", [0])
    before = buffers.pool_counts()
    for nbytes in SIZES:
        buffers.allocate(nbytes)
    change = difference(before)
    assert change["bytes_held"] == change["bytes_recycled"] == 0
    assert change["bytes_returned"] == change["bytes_allocated"]


@pytest.mark.parametrize("limit", [None, 0])
@pytest.mark.parametrize("nbytes", SIZES)
def test_no_python_runs_when_a_buffer_dies(monkeypatch, nbytes, limit):
    buffers.allocate(1)
    if limit is not None:
        monkeypatch.setattr(buffers, "_limit", [limit])
    held = [buffers.allocate(nbytes).array((nbytes,), "uint8"), buffers.allocate(nbytes)]
    seen = []
    sys.setprofile(lambda frame, event, _: event == "call" and seen.append(frame.f_code.co_name))
    try:
        held.clear()
    finally:
        sys.setprofile(None)
    assert seen == []


def test_memory_is_recycled_more_than_once():
    # The finaliser has to run each time, not only the first.
    address = buffers.allocate(640).address
    assert {buffers.allocate(640).address for _ in range(100)} == {address}


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("0", 0),
        ("1000", 1000),
        ("2k", 2048),
        ("512M", 512 << 20),
        ("1.5GiB", 3 << 29),
        ("4gb", 4 << 30),
    ],
)
def test_limit_from_the_environment(monkeypatch, text, limit):
    monkeypatch.setenv("GRADTAPE_CACHE_LIMIT", text)
    assert buffers._chosen_limit() == limit


@pytest.mark.parametrize("text", ["lots", "-1", "nan", "inf", "M"])
def test_limit_that_is_no_size(monkeypatch, text):
    monkeypatch.setenv("GRADTAPE_CACHE_LIMIT", text)
    with pytest.raises(ValueError, match="is not a number of bytes"):
        buffers._chosen_limit()


def test_limit_by_default_is_half_of_memory(monkeypatch):
    monkeypatch.delenv("GRADTAPE_CACHE_LIMIT", raising=False)
    monkeypatch.setattr(buffers, "physical_memory", lambda: 1000)
    assert buffers._chosen_limit() == 500


def test_system_out_of_memory(monkeypatch):
    idle = buffers.allocate(1 << 20)
    del idle

    def none_left(capacity):
        raise MemoryError

    monkeypatch.setattr(buffers, "_from_system", none_left)
    with pytest.raises(MemoryError, match="no memory for 5000000 bytes"):
        buffers.allocate(5_000_000)
    assert buffers.pool_counts().bytes_held == 0


def test_threads_never_share_memory():
    failures = []

    def work(number):
        generator = np.random.default_rng(number)
        for _ in range(300):
            held = []
            for size in generator.integers(1, 4000, 5):
                array = buffers.allocate(8 * int(size)).array((int(size),), "int64")
                array[:] = number
                held.append(array)
            if not all(np.all(array == number) for array in held):
                failures.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_has_memory_of_its_own():
    body = """
import os
import numpy as np
from gradtape.runtime import buffer_pool as buffers
held = [buffers.allocate(n).array((n,), np.uint8) for n in (100, 4_000_000)]
for each in held: each[:] = 1
idle = buffers.allocate(4_000_000); address = idle.address; del idle
child = os.fork()
if child == 0:
    for each in held: each[:] = 2
    mine = buffers.allocate(4_000_000)
    mine.array((4_000_000,), np.uint8)[:] = 3
    del mine, held
    buffers.empty_cache()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert all(np.all(each == 1) for each in held)
assert buffers.allocate(4_000_000).address == address
"""
    source = str(Path(buffers.__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", body],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_buffers_that_die_with_the_interpreter():
    body = """
from gradtape.runtime import buffer_pool as buffers
import sys
class Keeper: pass
keeper = Keeper(); keeper.itself = keeper
keeper.held = [buffers.allocate(n).array((n,), "u1") for n in (10, 100_000, 2_000_000)]
sys.keeper = keeper
"""
    source = str(Path(buffers.__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", body],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": source, "GRADTAPE_CACHE_LIMIT": "1M"},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_buffers_are_not_copied():
    buffer = buffers.allocate(8)
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied"):
            copied(buffer)
