"""Machine code on disk: found by new processes, ignored if damaged, foreign or not the user's."""

import ctypes
import os
import subprocess
import sys
import time

import pytest

from gradtape.compiler.objects import cache_folder, llvm, object_cache

PROGRAM = """
import numpy as np, gradtape as gt
f = gt.function(lambda x: gt.sum(gt.tanh(x) * gt.sin(x) + {number}))
for _ in range(4):
    found = f(gt.asarray(np.linspace(0.0, 1.0, 1000)))
counts = gt.counters()
print(float(found), counts.kernels_compiled, counts.kernels_loaded)
"""


ROUTINE = """
import numpy as np, gradtape as gt
from gradtape.compiler.emit.register_code import RegisterCode
from gradtape.compiler.lower import native_stretches
kinds = set()
right = native_stretches.compile_kernels
def compile_kernels(efforts, *others):
    kinds.update(map(type, efforts))
    return right(efforts, *others)
native_stretches.compile_kernels = compile_kernels
a = gt.asarray([1.0, 2.0, 3.0])
for _ in range(40):
    a = a / (1.0 + gt.sum(a * a)) + gt.linalg.cross(a, gt.flip(a))
print(float(gt.sum(a)), kinds == {RegisterCode}, gt.counters().kernels_compiled,
      gt.counters().kernels_loaded)
"""


TWO = """
import numpy as np, gradtape as gt
x = gt.asarray(np.linspace(0.0, 1.0, 1000))
programs = {{
    "a": lambda: gt.sum(gt.tanh(x), axis=0) + gt.max(gt.sin(x)),
    "b": lambda: gt.max(gt.sin(x)) * gt.prod(gt.cosh(x)),
}}
for name in {order!r}:
    for _ in range(3):
        programs[name]().numpy()
print(gt.counters().kernels_compiled, gt.counters().kernels_loaded)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def run(number=1.0, **environment):
    """What a new process prints: a result, kernels compiled, kernels loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(number=number)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    value, compiled, loaded = done.stdout.split()
    return value, int(compiled), int(loaded)


def test_a_known_program_compiles_nothing_in_a_new_process(folder):
    first = run()
    assert first[1] > 0
    assert first[2] == 0
    assert run() == (first[0], 0, first[1])


def test_register_code_is_found_by_its_text(folder):
    def printed():
        done = subprocess.run(
            [sys.executable, "-c", ROUTINE], env={**os.environ, "GRADTAPE_JIT": "always"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.split()

    value, *counts = printed()
    assert counts == ["True", "1", "0"]
    assert printed() == [value, "True", "0", "1"]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign"])
def test_damaged_entries_are_compiled_again(folder, damage):
    first = run()
    for path in folder.iterdir():
        data = bytearray(path.read_bytes())
        if damage == "flip":
            data[len(data) // 2] ^= 255
        changed = {"cut": data[:-9], "flip": data, "empty": b"", "foreign": b"#!/bin/sh\n"}[damage]
        path.write_bytes(changed)
    assert run() == first
    assert run() == (first[0], 0, first[1])


def test_an_entry_that_is_whole_but_no_object_file_is_compiled_again(folder):
    text = "define i64 @seven() { ret i64 7 }"
    assert not llvm.compile_ir(text, for_good=False).loaded
    (path,) = folder.iterdir()
    object_cache.save(path.name, ["seven"], b"no object file")
    assert not llvm.compile_ir(text, for_good=False).loaded
    again = llvm.compile_ir(text, for_good=False)
    assert again.loaded
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(again.address("seven"))() == 7


@pytest.mark.slow
def test_off_writes_nothing(folder, monkeypatch):
    assert run(GRADTAPE_KERNEL_CACHE="off")[2] == 0
    assert not folder.exists()


@pytest.mark.slow
def test_other_vectors_are_other_entries(folder):
    assert run(GRADTAPE_VECTOR_BITS="128")[2] == 0
    assert run(GRADTAPE_VECTOR_BITS="256")[2] == 0


@pytest.mark.slow
def test_a_folder_that_others_may_write_to_is_not_used(folder):
    folder.mkdir(mode=0o700)
    folder.chmod(0o777)
    cache_folder._prepared.cache_clear()
    assert cache_folder.cache_folder() is None
    assert run()[1] > 0
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    assert run(GRADTAPE_KERNEL_CACHE=str(tmp_path / "file" / "below"))[1] > 0


def test_the_least_recently_used_entries_go(folder):
    for number in range(8):
        object_cache.save(f"{number:064}", ["f"], bytes(1000))
        past = time.time() - 1000 + number
        os.utime(folder / f"{number:064}", (past, past))
    object_cache.shrink(folder, 5000)
    assert sorted(path.name[-1] for path in folder.iterdir()) == ["5", "6", "7"]
    assert object_cache.load(f"{7:064}") == (["f"], bytes(1000))
    assert object_cache.load(f"{0:064}") is None


def test_names_depend_on_every_part():
    assert object_cache.key("a", "bc") != object_cache.key("ab", "c")


@pytest.mark.slow
def test_processes_that_write_the_same_entry(folder):
    command = [sys.executable, "-c", PROGRAM.format(number=2.0)]
    running = [
        subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.PIPE) for _ in range(3)
    ]
    values = {process.communicate()[0].split()[0] for process in running}
    assert len(values) == 1
    assert run(number=2.0)[1] == 0
    assert not [path for path in folder.iterdir() if path.name.startswith("new-")]


def counts_of(order):
    done = subprocess.run(
        [sys.executable, "-c", TWO.format(order=order)], env={**os.environ, "GRADTAPE_JIT": "wait"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return tuple(map(int, done.stdout.split()))


@pytest.mark.slow
def test_a_kernel_is_found_whichever_others_were_compiled_with_it(folder):
    compiled, loaded = counts_of("ab")
    assert compiled > 2
    assert loaded == 0
    # The other order, and one program alone: everything is there.
    assert counts_of("ba") == (0, compiled)
    compiled, loaded = counts_of("b")
    assert compiled == 0
    assert loaded > 0


def test_the_folder_is_bounded(folder, monkeypatch):
    monkeypatch.setattr(object_cache, "OBJECT_CACHE_BYTES", 20_000)
    monkeypatch.setattr(object_cache, "OBJECT_WRITES_PER_LOOK", 4)
    for number in range(100):
        object_cache.save(f"{number:064}", ["f"], bytes(1000))
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 20_000 + 4 * 1100


@pytest.mark.slow
def test_files_of_others_in_the_folder_are_no_trouble(folder):
    first = run()
    (folder / "README").write_text("not an entry")
    (folder / "below").mkdir()
    assert run() == (first[0], 0, first[1])
    assert (folder / "README").exists()


@pytest.mark.slow
def test_entries_that_cannot_be_read(folder):
    first = run()
    for path in list(folder.iterdir()):
        path.unlink()
        path.mkdir()
    assert run() == first
