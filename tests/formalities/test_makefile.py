"""Targets that create an environment first name what is missing; `make test` is the small one."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(folder: Path, target: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a target whose environments would be created in a folder."""
    environments = [f"VENV={folder / 'own'}", f"PEERS_VENV={folder / 'peers'}"]
    python = environment.pop("PYTHON", sys.executable)
    return subprocess.run(
        ["make", "--no-print-directory", f"PYTHON={python}", *environments, target],
        cwd=ROOT,
        env={**os.environ, "MAKEFLAGS": "", **environment},
        capture_output=True,
        text=True,
    )


@needs_make
@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
@pytest.mark.parametrize("target", ["demo", "test", "test-full", "docs", "bench", "test-oldest"])
def test_a_missing_module_is_named_with_its_package(target, missing, tmp_path):
    (tmp_path / f"{missing}.py").write_text("raise ImportError")
    done = make(tmp_path, target, PYTHONPATH=str(tmp_path))
    assert done.returncode
    assert "cannot create an environment" in done.stderr
    assert "python{}.{}-venv".format(*sys.version_info) in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".py") in (
        [],
        ["__pycache__"],
    )


@needs_make
def test_a_missing_python_is_named(tmp_path):
    done = make(tmp_path, "test", PYTHON="no-such-python")
    assert done.returncode
    assert "'no-such-python' was not found" in done.stderr


@needs_make
def test_an_old_python_is_named(tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.8.1\nexit 1\n')
    python.chmod(0o755)
    done = make(tmp_path, "test", PYTHON=str(python))
    assert done.returncode
    assert "needs Python 3.11 or newer" in done.stderr
    assert "Python 3.8.1" in done.stderr


@needs_make
def test_quick_and_full_tests_differ_in_marks_and_packages(tmp_path):
    def commands(target):
        done = make(tmp_path, target, MAKEFLAGS="-n")
        return done.stdout.splitlines()

    quick, full = commands("test"), commands("test-full")
    assert any("pytest" in line and '-m "not slow"' in line for line in quick)
    assert not any("mypy" in line or "dev-full" in line for line in quick)
    assert not any("not slow" in line for line in full)
    assert any("'.[dev-full]'" in line for line in full)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {name: " ".join(found) for name, found in extras["optional-dependencies"].items()}
    assert not any(large in extras["dev"] for large in ("ray", "basedpyright"))
    assert "gradtape[dev]" in extras["dev-full"]
