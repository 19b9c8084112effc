"""Total time from the first call to call k, ours and the peers': `make bench-curves`.

Every figure is from a fresh process: what is imported, recorded, derived and compiled in a call is
part of it. Forms run in turns, and the minimum over the rounds is shown. "cold" has no kernels on
disk; "warm" finds those of an earlier process. `off` and `always` are forms of gradtape that never
compile, and that compile at the first run: `auto` should stay near the better of the two.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.curves.process import COUNTS
from benchmarks.curves.programs import PROGRAMS
from benchmarks.process import ROOT, interpreter, write_bytecode
from gradtape.compiler.objects.llvm import host

BUDGET = 4.0  # seconds after which a process ends
LONGEST = 60.0  # seconds that it may take for a first call
# Sums of states may differ by rounding that the iterations amplify.
TOLERANCE = {"float64": 1e-6, "float32": 5e-2}

Curve = dict[int, float]


@dataclass(frozen=True)
class Form:
    """A library, how it is used, and when it compiles."""

    title: str
    library: str
    variant: str = "plain"
    mode: str = ""
    warm: bool = False


FORMS = (
    Form("undecorated", "gradtape", "plain", "auto"),
    Form("function", "gradtape", "function", "auto"),
    Form("undecorated off", "gradtape", "plain", "off"),
    Form("function off", "gradtape", "function", "off"),
    Form("undecorated always", "gradtape", "plain", "always"),
    Form("function always", "gradtape", "function", "always"),
    Form("undecorated warm", "gradtape", "plain", "auto", warm=True),
    Form("function warm", "gradtape", "function", "auto", warm=True),
    Form("jax", "jax"),
    Form("torch", "torch"),
    Form("autograd", "autograd"),
    Form("numpy", "numpy"),
)
PEERS = ("jax", "torch", "autograd", "numpy")


def measured(name: str, form: Form, folder: Path, budget: float) -> dict[str, Any] | str:
    """The curve of a fresh process, or why there is none."""
    python = interpreter(form.library)
    if python is None:
        return "GRADTAPE_PEERS_PYTHON is not set"
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    if form.library == "gradtape":
        environment["GRADTAPE_KERNEL_CACHE"] = str(folder) if form.warm else "off"
        environment["GRADTAPE_JIT"] = form.mode
    arguments = [name, form.library, form.variant, str(budget)]
    try:
        done = subprocess.run(
            [python, "-m", "benchmarks.curves.process", *arguments],
            capture_output=True, text=True, cwd=ROOT, env=environment, timeout=budget + LONGEST,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not done with a call after {LONGEST:.0f} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["ended without a word"])[-1][:120]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(name: str, sums: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Forms whose states differ from those of the first form."""
    tolerance = TOLERANCE[PROGRAMS[name].dtype]
    (_, first), *others = sums.items()
    return [
        f"{title} after {count} calls: {value!r}, expected {first[count]!r}"
        for title, values in others
        for count, value in values.items()
        if count in first and abs(value - first[count]) > tolerance * abs(first[count])
    ]


def race(name: str, forms: list[Form], rounds: int, budget: float) -> dict[str, Curve]:
    """The curves of one program, the minimum of all rounds."""
    best: dict[str, Curve] = {}
    sums: dict[str, Mapping[str, float]] = {}
    failed: set[Form] = set()
    folder = Path(tempfile.mkdtemp())
    try:
        for number in range(rounds + 1):
            for form in forms:
                # One round before the others fills the folder that warm processes find.
                if form in failed or (number == 0 and not form.warm):
                    continue
                found = measured(name, form, folder, budget)
                if isinstance(found, str):
                    print(f"  {form.title}: {found}", flush=True)
                    failed.add(form)
                    continue
                if number == 0:
                    continue
                sums[form.title] = found["sums"]
                curve = best.setdefault(form.title, {})
                for count, seconds in found["seconds"].items():
                    curve[int(count)] = min(seconds, curve.get(int(count), seconds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in check(name, sums):
        print(f"  WRONG: {line}", flush=True)
    return best


def text(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:,.0f}"


def table(curves: Mapping[str, Curve]) -> list[str]:
    """Milliseconds by form and count, and the ratios that are promised."""
    counts = [count for count in COUNTS if any(count in each for each in curves.values())]
    rows = [["ms until call", *[f"{count:,}" for count in counts]]]
    rows += [
        [title, *[text(curve.get(count)) for count in counts]] for title, curve in curves.items()
    ]
    for form in ("undecorated", "function"):
        extremes = [curves.get(f"{form} {mode}", {}) for mode in ("off", "always")]
        rows.append([f"{form} / better of off, always",
                     *[ratio(curves.get(form), extremes, count) for count in counts]])  # fmt: skip
    ours = [curves.get("undecorated", {}), curves.get("function", {})]
    peers = [curves[title] for title in PEERS if title in curves]
    best = {count: least(ours, count) for count in counts}
    rows.append(["best peer / better of ours", *[inverse(best, peers, count) for count in counts]])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(each.ljust(w) if not n else each.rjust(w)
                  for n, (each, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]  # fmt: skip


def least(curves: list[Curve], count: int) -> float | None:
    return min((curve[count] for curve in curves if count in curve), default=None)


def ratio(curve: Curve | None, others: list[Curve], count: int) -> str:
    limit = least(others, count)
    if curve is None or count not in curve or limit is None:
        return "–"
    return f"{curve[count] / limit:.2f}"


def inverse(ours: Mapping[int, float | None], peers: list[Curve], count: int) -> str:
    limit, own = least(peers, count), ours.get(count)
    return "–" if limit is None or own is None else f"{limit / own:.2f}"


def as_json(found: Mapping[str, Mapping[str, Curve]]) -> str:
    """All curves, with the day and the machine."""
    content = {
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {host().bits}-bit vectors",
        "programs": {
            name: {"title": PROGRAMS[name].title, "forms": forms} for name, forms in found.items()
        },
    }
    return json.dumps(content, indent=1) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--peers", default=",".join(PEERS), help="of: " + ",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of a process")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    chosen = parser.parse_args()
    write_bytecode()
    peers = chosen.peers.split(",")
    forms = [form for form in FORMS if form.library == "gradtape" or form.library in peers]
    load = os.getloadavg()[0]
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, "
          f"Python {platform.python_version()}; minima of {chosen.rounds} rounds")  # fmt: skip
    found: dict[str, dict[str, Curve]] = {}
    for name in chosen.only or PROGRAMS:
        print(f"\n{name}: {PROGRAMS[name].title}", flush=True)
        # NumPy has the programs from outside only, with their derivatives by hand.
        some = [form for form in forms if form.library != "numpy" or PROGRAMS[name].outside]
        found[name] = race(name, some, chosen.rounds, chosen.budget)
        print("\n".join(table(found[name])), flush=True)
        if chosen.json:
            chosen.json.write_text(as_json(found))


if __name__ == "__main__":
    sys.exit(main())
