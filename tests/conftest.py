"""Every test begins with nothing pending: what another left behind must not be counted in it."""

import gc
import os
import signal
import zlib
from collections import defaultdict

import pytest

# Counts of compiled kernels must not depend on earlier runs; tests of the cache switch it on.
os.environ.setdefault("GRADTAPE_KERNEL_CACHE", "off")
# Nor on how fast the compiler thread is: calls wait for it as `auto` would ask it. Tests of the
# thread set `auto`; all others can be run with GRADTAPE_JIT=auto as well, but for their counts.
os.environ.setdefault("GRADTAPE_JIT", "wait")
# Nor runs of decorated functions on what they cost: tests of checks ask for them.
os.environ.setdefault("GRADTAPE_RECHECK", "0")

# A shell that starts the tests in the background lets them ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import gradtape as gt
from gradtape.trace.recording import Recording, state

# Cases of one parametrized test that `make test` runs; `make test-full` runs all.
QUICK_CASES = 8


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test with many cases, mark all but some as slow, unless its own file marks some."""
    tests = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        if len(cases) > QUICK_CASES and not any(map(is_slow, cases)):
            # The same ones at every run, in no pattern of the parameters.
            cases.sort(key=lambda case: zlib.crc32(case.name.encode()))
            for case in cases[QUICK_CASES:]:
                case.add_marker(pytest.mark.slow)


def is_slow(item):
    return item.get_closest_marker("slow") is not None


@pytest.fixture(autouse=True)
def fresh_recording():
    state.recording = Recording()
    state.tapes = []


@pytest.fixture(autouse=True)
def fixed_random_numbers(request, fresh_recording):
    """A test draws the same weights at every run, and so fails at every run or at none."""
    name = f"{request.node.location[0]}::{request.node.name}"
    gt.random.seed(zlib.crc32(name.encode()))


@pytest.fixture(autouse=True, scope="module")
def few_objects_to_collect():
    """Tests collect garbage often: what earlier modules keep for good is not looked at again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def collect_at_every_allocation():
    """For `make test-native-memory`: a collection, and what it runs, begins everywhere."""
    if "GRADTAPE_TEST_COLLECT" in os.environ:
        before = gc.get_threshold()
        gc.set_threshold(1, 50, 1000)
        yield
        gc.set_threshold(*before)
    else:
        yield
