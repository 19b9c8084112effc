"""doctor: what is off on this machine, and why.

It checks Python, NumPy, BLAS, vectors, vector math, threads, the native recorder, the cache of
machine code, the optional packages and the environment variables, and compiles one small program.
The exit code is 1 if something is wrong, and 0 if something is only slower than it could be.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from gradtape.compiler.cpython import switch
from gradtape.compiler.machine_limits import cpu_quota, default_thread_count
from gradtape.compiler.objects.cache_folder import cache_folder
from gradtape.compiler.thread_team import get_num_threads
from gradtape.ops.blas_lapack import library
from gradtape.ops.elementwise.unary import sin
from gradtape.runtime import tiers
from gradtape.tensor.tensor import asarray
from gradtape.tools.command_line.output import show
from gradtape.version import __version__

# Uses of the optional packages.
OPTIONAL = {
    "rich": "tables in colour: pip install gradtape[cli]",
    "pandas": "Profile.to_pandas",
    "matplotlib": "gt.spy(plot=True) and history.plot(): pip install gradtape[plot]",
    "treescope": "trees of modules in notebooks",
}


class Check(NamedTuple):
    """One check. A state is ok, slower, or wrong."""

    what: str
    state: str
    found: str


def checks() -> Iterator[Check]:
    """All checks, in the order of a start."""
    yield Check(
        "gradtape", "ok", f"{__version__} on Python {platform.python_version()}, {sys.platform}"
    )
    yield Check("NumPy", "ok", np.__version__)
    yield from _compiler()
    yield from _threads()
    why = switch.why_python()
    state = "ok" if why is None or "too little" in why else "slower"
    yield Check("recorder", state, "native" if why is None else f"Python: {why}")
    for name, use in OPTIONAL.items():
        there = find_spec(name) is not None
        yield Check(name, "ok", "installed" if there else f"not installed; it is for {use}")
    for name, value in sorted(os.environ.items()):
        if name.startswith("GRADTAPE_"):
            yield Check(name, "ok", value)


def _compiler() -> Iterator[Check]:
    if tiers.MODE == "off":
        yield Check("compiler", "slower", "GRADTAPE_JIT=off: every op runs in NumPy")
        return
    try:
        # These load the compiler.
        from gradtape.compiler.emit.math import mathlibrary
        from gradtape.compiler.objects import llvm

        host = llvm.host()
        values = np.linspace(0.0, 1.0, 1000)
        tensor = asarray(values)
        for _ in range(3):
            found = sin(tensor).numpy()
        right = bool(np.allclose(found, np.sin(values), rtol=1e-12))
    except Exception as error:
        yield Check("compiler", "wrong", f"a small program could not be compiled: {error!r}")
        return
    state = "ok" if right else "wrong"
    yield Check("compiler", state, "compiles" if right else "sin of a vector came out wrong")
    wide = host.bits >= 256
    yield Check("vectors", "ok" if wide else "slower", f"{host.bits} bits on {host.machine}")
    libmvec = host.libmvec and mathlibrary.preference() in ("auto", "libmvec")
    yield Check(
        "vector math", "ok", "libmvec" if libmvec else "polynomials of gradtape's, and libm"
    )
    yield Check("BLAS", "ok", library().name)
    folder = cache_folder()
    state = "slower" if folder is None else "ok"
    where = str(folder or "none: GRADTAPE_KERNEL_CACHE is off or no home")
    yield Check("kernels on disk", state, where)


def _threads() -> Iterator[Check]:
    count, processors = get_num_threads(), os.cpu_count() or 1
    text = f"{count} of {processors} processors"
    if count < processors:
        names = [n for n in ("GRADTAPE_NUM_THREADS", "OMP_NUM_THREADS") if os.environ.get(n)]
        if names:
            text += f": {names[0]}={os.environ[names[0]]}"
        elif cpu_quota() < processors:
            text += f": the quota of the container is {cpu_quota():g}"
        elif count != default_thread_count():
            text += ": gt.set_num_threads"
        else:
            text += ": the affinity of this process"
    yield Check("threads", "ok" if count >= processors else "slower", text)


def run(chosen: argparse.Namespace) -> int:
    """Print all checks."""
    found = list(checks())
    data = [each._asdict() for each in found]
    show(chosen.json, data, "gradtape doctor", ("what", "state", "found"), found)
    slower, wrong = (sum(each.state == state for each in found) for state in ("slower", "wrong"))
    if not chosen.json:
        print(f"\n{_sentence(wrong, slower)}")
    return int(wrong > 0)


def _sentence(wrong: int, slower: int) -> str:
    if not wrong and not slower:
        return "All checks passed."
    parts = [f"{wrong} wrong"] if wrong else []
    parts += [f"{slower} slower than possible: see the column `found`"] if slower else []
    return ", ".join(parts) + "."
