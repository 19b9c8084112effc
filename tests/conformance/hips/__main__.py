"""Run the tests of a checkout of HIPS autograd on gradtape.

    python -m tests.conformance.hips path/to/autograd [arguments of pytest]

Failures that `expected.py` lists with a reason are counted; any other ends with exit status 1.
"""

import os
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest
from tests.conformance.hips.expected import EXPECTED
from tests.conformance.hips.shim import install


class Results:
    """The names of tests by outcome."""

    def __init__(self) -> None:
        self.by_outcome: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            name = report.nodeid.rpartition("/")[2]
            self.by_outcome.setdefault(report.outcome, []).append(name)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.by_outcome.setdefault("failed", []).append(report.nodeid)


def main(checkout: Path, arguments: list[str]) -> int:
    warnings.simplefilter("ignore")
    install(checkout)
    results = Results()
    where = [str(checkout / "tests"), "--rootdir", str(checkout), "-c", os.devnull]
    quiet = ["-q", "-W", "ignore", "-p", "no:cacheprovider", "-p", "no:randomly"]
    pytest.main([*where, *quiet, "--tb=line", *arguments], plugins=[results])
    failed = results.by_outcome.get("failed", [])
    reasons = {name: reason for reason, names in EXPECTED.items() for name in names}
    print("\npassed:", len(results.by_outcome.get("passed", [])))
    print("skipped by the suite:", len(results.by_outcome.get("skipped", [])))
    for reason, count in Counter(reasons[name] for name in failed if name in reasons).items():
        print(f"failed as expected: {count:3} · {reason}")
    for name in results.by_outcome.get("passed", []):
        if name in reasons:
            print(f"passed, and is listed as a failure: {name}")
    unexpected = [name for name in failed if name not in reasons]
    print("failed unexpectedly:", len(unexpected), *unexpected, sep="\n  ")
    return 1 if unexpected or not results.by_outcome else 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "autograd" / "core.py").exists():
        sys.exit(f"{__doc__}\nNo checkout: {sys.argv[1:2]}")
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
