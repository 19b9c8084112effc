"""Measure gradtape and its peers, one workload after the other. `make bench` runs this."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable
from datetime import date
from pathlib import Path

import numpy as np

from benchmarks.forms import FORMS, Form
from benchmarks.measure import Effort, Measured, measure, measure_first_calls, measure_imports
from benchmarks.process import write_bytecode
from benchmarks.table import OURS, as_json, block, header, summary
from benchmarks.workloads import GROUPS, WORKLOADS, find
from gradtape.compiler.objects.llvm import host

FIRST_CALLS_OF = "square"
# Rows about first calls, and whether these have to compile.
FIRST_CALLS = {"first-call": False, "first-compiled-call": True}
BUSY = 0.5  # the load average above which a warning is printed
FULL = Effort(rounds=7, turn=0.2, fresh=3)
QUICK = Effort(rounds=3, turn=0.05, fresh=1)


def options() -> argparse.Namespace:
    names = [*(workload.name for workload in WORKLOADS), *FIRST_CALLS, "import"]
    libraries = list(dict.fromkeys(form.library for form in FORMS if form.peer))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=names,
        metavar="NAME",
        help=f"measure this one only; may be repeated. One of: {', '.join(names)}",
    )
    parser.add_argument(
        "--group",
        action="append",
        choices=list(GROUPS),
        metavar="NAME",
        help=f"measure the rows of this group; may be repeated. One of: {', '.join(GROUPS)}",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of turns")
    parser.add_argument(
        "--peers",
        type=lambda text: [name for name in text.split(",") if name],
        default=libraries,
        metavar="A,B",
        help=f"of: {','.join(libraries)}",
    )
    parser.add_argument("--quick", action="store_true", help="fewer, shorter rounds; small arrays")
    parser.add_argument(
        "--compile", action="store_true", help="torch.compile too (needs a C++ compiler)"
    )
    parser.add_argument(
        "--vector-bits",
        choices=("128", "256", "512"),
        metavar="N",
        help="limit gradtape's vectors to 128, 256 or 512 bits",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    chosen = parser.parse_args()
    if chosen.only and chosen.group:
        parser.error("--only and --group: choose rows by one of them")
    if unknown := set(chosen.peers) - set(libraries):
        parser.error(f"--peers: no peer is called {', '.join(unknown)}; of: {','.join(libraries)}")
    if chosen.rounds is not None and chosen.rounds < 1:
        parser.error(f"--rounds: {chosen.rounds} is less than one")
    slow = {workload.name for workload in WORKLOADS if workload.slow}
    if chosen.group:
        names = [workload.name for workload in WORKLOADS if workload.group in chosen.group]
    wanted = [name for name in names if not (chosen.quick and name in slow)]
    chosen.names = chosen.only or wanted
    return chosen


def used(forms: Iterable[Form], chosen: argparse.Namespace) -> list[Form]:
    """The forms to measure: those of NumPy only if a chosen row has one."""
    found = [form for form in forms if not form.peer or form.library in chosen.peers]
    found = [form for form in found if not form.optional or chosen.compile]
    workloads = [workload for workload in WORKLOADS if workload.name in chosen.names]
    if not any(workload.build("numpy") for workload in workloads):
        found = [form for form in found if form.library != "numpy"]
    if not os.environ.get("GRADTAPE_PEERS_PYTHON"):
        print("GRADTAPE_PEERS_PYTHON is not set, so no peer is measured. `make bench` sets it.")
        found = [form for form in found if form.library in ("gradtape", "numpy")]
    return found


def run(name: str, forms: list[Form], effort: Effort) -> Measured:
    if name == "import":
        return measure_imports(forms, effort)
    if name in FIRST_CALLS:
        return measure_first_calls(name, find(FIRST_CALLS_OF), forms, effort, FIRST_CALLS[name])
    return measure(find(name), forms, effort)


def versions(found: list[Measured]) -> dict[str, str]:
    """The version of each library that was measured."""
    return {
        title: cell.version
        for measured in found
        for title, cell in measured.cells.items()
        if cell.version
    }


def save(path: Path, found: list[Measured], machine: str, effort: Effort) -> None:
    """Write all figures as JSON."""
    content = {
        "date": date.today().isoformat(),
        "versions": versions(found),
        "python": platform.python_version(),
        "machine": machine,
        "effort": vars(effort),
        "workloads": [as_json(measured) for measured in found],
    }
    path.write_text(json.dumps(content, indent=2) + "\n")


def main() -> int:
    chosen = options()
    write_bytecode()
    forms = used(FORMS, chosen)
    if chosen.vector_bits:
        os.environ["GRADTAPE_VECTOR_BITS"] = chosen.vector_bits
    effort = QUICK if chosen.quick else FULL
    effort = Effort(chosen.rounds or effort.rounds, effort.turn, effort.fresh)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {host().bits}-bit vectors"
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {machine}")
    print(
        f"{effort.rounds} rounds, turns of {effort.turn} s; time per call. "
        "peer/plain and peer/func. are the best peer's time by ours: above 1 gradtape is ahead."
    )
    if (load := os.getloadavg()[0]) > BUSY:
        print(f"Others use this machine (load {load:.1f}): best times suffer, medians more.")
    print()
    titles = [form.title for form in forms]
    print(header(titles))
    found: list[Measured] = []
    for name in chosen.names:
        measured = run(name, forms, effort)
        print("\n".join(block(measured, titles)), flush=True)
        found.append(measured)
        if chosen.json:  # after each row: a run that is interrupted keeps what it measured
            save(chosen.json, found, machine, effort)
    print("\n" + "\n".join(summary(found)))
    shown = ", ".join(f"{title} {version}" for title, version in versions(found).items())
    print(f"\n{shown}")
    # The run fails on any wrong answer, and on any trouble of gradtape.
    bad = [
        cell
        for measured in found
        for title, cell in measured.cells.items()
        if cell.wrong or (title in OURS and cell.trouble)
    ]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
