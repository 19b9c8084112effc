"""What small programs cost, in microseconds a round: `python -m benchmarks.small` prints the table.

Arrays have 1 to 200 numbers, so nearly all of the time is overhead. Each form is a process of its
own; GRADTAPE_PEERS_PYTHON names the interpreter that has the peers. Answers are checked first. Then
forms take turns; warm-up and timed rounds together are at most 2,000 for each form.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import os
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.process import Failed, Process, write_bytecode
from benchmarks.server import serve, version

WARM_UP, TIMED, TURNS = 1000, 1000, 5
SETTLE = 0.02  # seconds in which the previous process's threads stop spinning
PROFILED = 40  # rounds in which calls are counted
COLUMN = 15

Round = Callable[[], Any]


@dataclass(frozen=True)
class Form:
    """A column of the table."""

    title: str
    library: str
    variant: str = "plain"


FORMS = (
    Form("NumPy by hand", "numpy"),
    Form("undecorated", "gradtape"),
    Form("gt.function", "gradtape", "function"),
    Form("autograd", "autograd"),
    Form("JAX", "jax"),
    Form("JAX jit", "jax", "jit"),
    Form("PyTorch", "torch"),
)


def tools(library: str, variant: str) -> Any:
    """The library: its module `xp`, its `array`, its compiler `wrap`, and `slopes(loss, by)`."""
    if library == "numpy":
        return SimpleNamespace(name=library, xp=np, array=np.float64, wrap=lambda f: f, slopes=None)
    if library == "gradtape":
        import gradtape as gt

        wrap: Any = gt.function if variant == "function" else lambda f: f
        return SimpleNamespace(name=library, xp=gt, array=gt.asarray, wrap=wrap, slopes=gt.grad)
    if library == "autograd":
        import autograd
        import autograd.numpy as anp

        return SimpleNamespace(
            name=library, xp=anp, array=np.asarray, wrap=lambda f: f, slopes=autograd.grad
        )
    if library == "jax":
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        wrap = jax.jit if variant == "jit" else lambda f: f
        return SimpleNamespace(name=library, xp=jnp, array=jnp.asarray, wrap=wrap, slopes=jax.grad)
    import torch

    def array(values: Any) -> Any:
        return torch.tensor(values, dtype=torch.float64)

    return SimpleNamespace(name=library, xp=torch, array=array, wrap=lambda f: f, slopes=None)


# Each program gives the round that is timed, and a call that reads the answer after rounds.

EIGHT = np.linspace(0.1, 0.8, 8)


def sixteen_ops(t: Any) -> tuple[Round, Round]:
    xp, x = t.xp, t.array(EIGHT)

    @t.wrap
    def mixed(x: Any) -> Any:
        y = x
        for _ in range(5):
            y = xp.sin(y) * 0.9 + x
        return xp.sum(y)

    def once() -> float:
        return float(mixed(x))

    return once, once


ECCENTRICITY, ANOMALY, CLOSE, NEWTON_ROUNDS = 0.97, 0.6, 1e-12, 7


def kepler(t: Any) -> tuple[Round, Round]:
    """Newton's method for Kepler's equation: ten ops and one read in each of seven rounds."""
    xp, start = t.xp, t.array(ANOMALY)

    @t.wrap
    def better(x: Any) -> Any:
        step = (x - ECCENTRICITY * xp.sin(x) - ANOMALY) / (1.0 - ECCENTRICITY * xp.cos(x))
        return x - step, abs(step)

    def solved() -> Any:
        x, rounds = start, 0
        while True:
            x, step = better(x)
            rounds += 1
            if float(step) < CLOSE:
                break
        if rounds != NEWTON_ROUNDS:
            raise ValueError(f"{rounds} rounds, not {NEWTON_ROUNDS}")
        return x

    return solved, lambda: float(solved())


TIMES = np.linspace(0.0, 3.0, 200)
SEEN = 2.5 * np.exp(-1.3 * TIMES)
RATE = 0.3


def readme_fit(t: Any, tensors: bool = False) -> tuple[Round, Round]:
    """The step of README's example; `tensors` says that data are tensors, not NumPy arrays."""
    convert = t.array if tensors or t.name == "torch" else (lambda values: values)
    step, state = FITS[t.name](t, convert(TIMES), convert(SEEN))
    return step, lambda: [float(each) for each in state()]


def fit_by_hand(t: Any, x: Any, y: Any) -> tuple[Round, Round]:
    amplitude, rate = 1.0, 1.0

    def step() -> None:
        nonlocal amplitude, rate
        e = np.exp(-rate * x)
        left = amplitude * e - y
        slopes = 2.0 * np.mean(left * e), -2.0 * np.mean(left * amplitude * e * x)
        amplitude, rate = amplitude - RATE * slopes[0], rate - RATE * slopes[1]

    return step, lambda: (amplitude, rate)


def fit_with_a_tape(t: Any, x: Any, y: Any) -> tuple[Round, Round]:
    gt = t.xp
    amplitude, rate = gt.Variable(1.0), gt.Variable(1.0)

    @t.wrap
    def step() -> None:
        with gt.GradientTape() as tape:
            loss = gt.mean((amplitude * gt.exp(-rate * x) - y) ** 2)
        slopes = tape.gradient(loss, [amplitude, rate])
        for variable, slope in zip([amplitude, rate], slopes, strict=True):
            variable.assign_sub(RATE * slope)

    return step, lambda: (amplitude, rate)


def fit_with_grad(t: Any, x: Any, y: Any) -> tuple[Round, Round]:
    """autograd and JAX."""
    xp, state = t.xp, (t.array(1.0), t.array(1.0))

    def loss(amplitude: Any, rate: Any) -> Any:
        return xp.mean((amplitude * xp.exp(-rate * x) - y) ** 2)

    gradient = t.slopes(loss, (0, 1))

    @t.wrap
    def moved(amplitude: Any, rate: Any) -> Any:
        slopes = gradient(amplitude, rate)
        return amplitude - RATE * slopes[0], rate - RATE * slopes[1]

    def step() -> None:
        nonlocal state
        state = moved(*state)

    return step, lambda: state


def fit_with_torch(t: Any, x: Any, y: Any) -> tuple[Round, Round]:
    torch = t.xp
    state = [t.array(1.0).requires_grad_(), t.array(1.0).requires_grad_()]

    def step() -> None:
        amplitude, rate = state
        loss = torch.mean((amplitude * torch.exp(-rate * x) - y) ** 2)
        slopes = torch.autograd.grad(loss, state)
        with torch.no_grad():
            for value, slope in zip(state, slopes, strict=True):
                value.sub_(RATE * slope)

    return step, lambda: state


FITS = {
    "numpy": fit_by_hand,
    "gradtape": fit_with_a_tape,
    "autograd": fit_with_grad,
    "jax": fit_with_grad,
    "torch": fit_with_torch,
}


def fit_of_tensors(t: Any) -> tuple[Round, Round]:
    return readme_fit(t, tensors=True)


def tape_of_one_op(t: Any) -> tuple[Round, Round]:
    xp, x = t.xp, t.array(0.5)
    if t.name == "numpy":
        slope: Any = np.cos
    elif t.name == "gradtape":

        @t.wrap
        def slope(x: Any) -> Any:
            with xp.GradientTape() as tape:
                tape.watch(x)
                y = xp.sin(x)
            return tape.gradient(y, x)
    elif t.name == "torch":
        x.requires_grad_()

        def slope(x: Any) -> Any:
            return xp.autograd.grad(xp.sin(x), x)[0]
    else:
        slope = t.wrap(t.slopes(xp.sin))

    def once() -> float:
        return float(slope(x))

    return once, once


def one_op(t: Any) -> tuple[Round, Round]:
    sine, x = t.wrap(lambda x: t.xp.sin(x)), t.array(0.5)

    def once() -> float:
        return float(sine(x))

    return once, once


@dataclass(frozen=True)
class Program:
    """A row of the table."""

    title: str
    build: Callable[[Any], tuple[Round, Round]]
    together: int = 1  # rounds of one measurement, which ends with a read
    checked_after: int = 1
    libraries: tuple[str, ...] = ("numpy", "gradtape", "autograd", "jax", "torch")


PROGRAMS = {
    "sixteen-ops": Program("16 ops on 8 numbers, one read", sixteen_ops),
    "newton": Program("Newton, one number, 7 × (10 ops, one read)", kepler),
    "fit": Program("README's fit, data in NumPy arrays", readme_fit, 20, 100),
    "fit-tensors": Program(
        "README's fit, data in tensors", fit_of_tensors, 20, 100, ("gradtape", "jax")
    ),
    "tape": Program("tape of one op, one number, read", tape_of_one_op, 10),
    "one-op": Program("float of one op, one number", one_op, 10),
}


def expected(program: Program) -> Any:
    """The answer of NumPy by hand."""
    step, read = program.build(tools("numpy", "plain"))
    for _ in range(program.checked_after):
        step()
    return read()


class Server:
    """Serves all programs of one form."""

    def __init__(self, library: str, variant: str) -> None:
        self.tools = tools(library, variant)
        self.facts = {"version": version(library)}

    def prepare(self, name: str) -> dict[str, object]:
        """Build a program, and return its answer; what these rounds compile stays compiled."""
        self.program = PROGRAMS[name]
        self.step, self.read = self.program.build(self.tools)
        for _ in range(self.program.checked_after):
            self.step()
        return {"answer": self.read()}

    def turn(self, rounds: int) -> dict[str, object]:
        """Seconds a round, of each measurement."""
        step, together, clock = self.step, self.program.together, time.perf_counter
        last = self.read if self.program.checked_after > 1 else lambda: None
        found = []
        for _ in range(rounds // together):
            start = clock()
            for _ in range(together):
                step()
            last()
            found.append((clock() - start) / together)
        return {"seconds": found}

    def calls(self) -> dict[str, object]:
        """Python functions, and functions of C, that are called in one round."""
        profile = cProfile.Profile()
        with profile:
            for _ in range(PROFILED):
                self.step()
        stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
        ours = {
            place: row[1]
            for place, row in stats.items()
            if "lsprof" not in place[2] and place[0] != cProfile.__file__
        }
        native = sum(count for place, count in ours.items() if place[0] == "~")
        return {"python": (sum(ours.values()) - native) / PROFILED, "native": native / PROFILED}


@dataclass
class Found:
    """Seconds a round of one form, and the calls of a round; or what went wrong."""

    seconds: list[float]
    python: float = 0.0
    native: float = 0.0
    trouble: str = ""


def measured(name: str, running: dict[Form, Process], calls: bool) -> dict[Form, Found]:
    """Check the answers of all forms; time the right ones in turns."""
    program = PROGRAMS[name]
    found = {form: Found([]) for form in running if form.library in program.libraries}
    answer = expected(program)
    for form, cell in found.items():
        with noting(cell):
            got = running[form].ask("prepare", name=name)["answer"]
            if not np.allclose(got, answer, rtol=1e-9, atol=0):
                cell.trouble = f"wrong answer {got}, expected {answer}"
    right = {form: cell for form, cell in found.items() if not cell.trouble}
    for number in range(TURNS + 1):
        for form, cell in right.items():
            with noting(cell):
                rounds = TIMED // TURNS if number else WARM_UP - program.checked_after
                seconds = running[form].ask("turn", rounds=rounds)["seconds"]
                cell.seconds += seconds if number else []
            time.sleep(SETTLE)
    for form, cell in right.items():
        if calls:
            with noting(cell):
                both = running[form].ask("calls")
                cell.python, cell.native = both["python"], both["native"]
    return found


@contextlib.contextmanager
def noting(cell: Found) -> Any:
    try:
        yield
    except Failed as failure:
        cell.trouble = str(failure)


def line(title: str, cells: Iterable[str]) -> str:
    return f"{title:<44}" + "".join(f"{cell:>{COLUMN}}" for cell in cells)


def shown(seconds: float) -> str:
    return f"{1e6 * seconds:.3g}" if seconds < 1e-4 else f"{1e6 * seconds:.0f}"


def lines(name: str, forms: Iterable[Form], found: Mapping[Form, Found], calls: bool) -> list[str]:
    """One row of the table, its calls, and what went wrong."""
    cells = [found.get(form, Found([])) for form in forms]
    times = (
        f"{shown(min(cell.seconds))} / {shown(statistics.median(cell.seconds))}"
        if cell.seconds and not cell.trouble
        else "–"
        for cell in cells
    )
    counts = (f"{cell.python:.0f} + {cell.native:.0f}" if cell.python else "–" for cell in cells)
    rows = [line(PROGRAMS[name].title, times)]
    if calls:
        rows.append(line("  calls: Python + native", counts))
    troubles = [(form.title, cell.trouble) for form, cell in found.items() if cell.trouble]
    return [*rows, *(f"  {title}: {trouble}" for title, trouble in troubles)]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small", description=__doc__)
    names = ", ".join(PROGRAMS)
    parser.add_argument(
        "--only",
        action="append",
        choices=list(PROGRAMS),
        metavar="NAME",
        help=f"measure this one only; may be repeated. One of: {names}",
    )
    parser.add_argument("--calls", action="store_true", help="count the calls of a round too")
    return parser.parse_args()


def main() -> int:
    chosen = options()
    write_bytecode()
    wrong = False
    with contextlib.ExitStack() as stack:
        running: dict[Form, Process] = {}
        for form in FORMS:
            try:
                process = Process(form.library, form.variant, "all", module="benchmarks.small")
                running[form] = stack.enter_context(process)
            except Failed as failure:
                print(f"{form.title}: {failure}")
        versions = {form.library: one.facts["version"] for form, one in running.items()}
        print(", ".join(f"{library} {version}" for library, version in versions.items()))
        print(
            f"µs a round, minimum / median of {TIMED:,} rounds after {WARM_UP:,}; "
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n"
        )
        print(line("", [form.title for form in running]))
        for name in chosen.only or PROGRAMS:
            found = measured(name, running, chosen.calls)
            print("\n".join(lines(name, running, found, chosen.calls)), flush=True)
            wrong = wrong or any(cell.trouble for cell in found.values())
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) > 3 and not sys.argv[1].startswith("-"):
        serve(lambda: Server(*sys.argv[1:3]))
    else:
        sys.exit(main())
