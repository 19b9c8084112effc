"""How many threads and how much memory: from the environment, affinity and control groups."""

import math
import os

import pytest

from gradtape.compiler import machine_limits as limits
from gradtape.compiler.lower import lowered_program


def default_size(monkeypatch, **environment):
    for name in ("GRADTAPE_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return limits.default_thread_count()


def test_size_from_the_environment(monkeypatch):
    assert default_size(monkeypatch, GRADTAPE_NUM_THREADS="7", OMP_NUM_THREADS="3") == 7
    assert default_size(monkeypatch, OMP_NUM_THREADS="3,2") == 3
    with pytest.raises(ValueError, match="GRADTAPE_NUM_THREADS='many'"):
        default_size(monkeypatch, GRADTAPE_NUM_THREADS="many")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs affinity")
def test_size_from_affinity_and_quota(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    monkeypatch.setattr(limits, "cpu_quota", lambda: math.inf)
    assert default_size(monkeypatch) == 8
    monkeypatch.setattr(limits, "cpu_quota", lambda: 2.5)
    assert default_size(monkeypatch) == 3
    monkeypatch.setattr(limits, "cpu_quota", lambda: 0.2)
    assert default_size(monkeypatch) == 1


def groups(root, membership, files):
    (root / "cgroup").write_text(membership)
    for name, text in files.items():
        path = root / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return limits.cpu_quota(root / "cgroup", root / "mount")


def test_quota_of_version_2_is_the_smallest_up_to_the_root(tmp_path):
    files = {
        "a/b/cpu.max": "max 100000\n",
        "a/cpu.max": "150000 100000\n",
        "cpu.max": "400000 100000",
    }
    assert groups(tmp_path, "0::/a/b\n", files) == 1.5


def test_quota_of_version_1(tmp_path):
    files = {"cpu,cpuacct/a/cpu.cfs_quota_us": "50000", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"}
    assert groups(tmp_path, "4:cpu,cpuacct:/a\n", files) == 0.5
    files = {"cpu,cpuacct/a/cpu.cfs_quota_us": "-1"}
    assert groups(tmp_path, "4:cpu,cpuacct:/a\n", files) == math.inf


def test_no_quota(tmp_path):
    assert groups(tmp_path, "0::/\n", {}) == math.inf
    assert limits.cpu_quota(tmp_path / "missing", tmp_path) == math.inf


def test_the_third_cache_is_read_or_unknown(tmp_path):
    assert limits.third_cache(tmp_path) == 0
    (tmp_path / "size").write_text("32768K\n")
    assert limits.third_cache(tmp_path) == 32 << 20
    (tmp_path / "size").write_text("much\n")
    assert limits.third_cache(tmp_path) == 0


@pytest.mark.parametrize(
    ("cache", "bytes_"),
    [(0, 1 << 21), (3 << 20, 1 << 21), (32 << 20, 16 << 20), (1 << 30, 16 << 20)],
)
def test_where_results_are_written_past_the_caches(monkeypatch, cache, bytes_):
    monkeypatch.setattr(lowered_program, "third_cache", lambda: cache)
    assert lowered_program.streamed_bytes.__wrapped__() == bytes_
