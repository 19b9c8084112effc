"""compare: one function undecorated, as gt.function, in NumPy op by op, and by installed peers.

  gradtape compare model:loss --args "np.ones((100, 3)), 0.5"

`module:function` names it, as in an entry point; `--args` is a Python expression with np and gt.
A function whose first parameter is called `xp` gets the array library there (`xp.sin(x)`), and is
also run with NumPy itself and with installed peers: jax, torch. With --grad its gradient by the
first argument is measured instead. All results are compared with the first.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.config import COMPARE_WARM_CALLS
from gradtape.tools.command_line.bench import best
from gradtape.tools.command_line.output import show
from gradtape.tools.profiler.formats import seconds

PEERS = ("numpy", "jax", "torch")
# The last line of a traceback.
ERROR = re.compile(r"[\w.]+(Error|Exception|Interrupt)\b")


def add(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("function", metavar="module:function")
    parser.add_argument("--args", default="", help="arguments, as a Python expression")
    parser.add_argument("--grad", action="store_true", help="the gradient by the first argument")
    parser.add_argument("--form", choices=(*FORMS, CHECK), help=argparse.SUPPRESS)


def run(chosen: argparse.Namespace) -> int:
    """Measure all forms in processes of their own, and compare their results."""
    if chosen.form:
        print(json.dumps(fault(chosen) if chosen.form == CHECK else measured(chosen)))
        return 0
    module, _, name = chosen.function.partition(":")
    if not module or not name:
        print(f"gradtape compare: {chosen.function!r} is not module:function, such as model:loss.")
        return 2
    checked = _in_process(chosen, CHECK)
    if checked["trouble"]:
        print(f"gradtape compare: {checked['trouble']}", file=sys.stderr)
        return 2
    rows, first, code = [], None, 0
    for form in FORMS if checked["takes_library"] else OURS:
        found = _in_process(chosen, form)
        if "value" in found:
            if first is None:
                first = found["value"]
            elif not np.allclose(found["value"], first, rtol=1e-4, equal_nan=True):
                found["trouble"], code = "its result differs", 1
        elif form == "undecorated":
            code = 1
        rows.append({"form": form, **{k: v for k, v in found.items() if k != "value"}})
    table = [
        (
            row["form"],
            *(seconds(row[name]) if name in row else "-" for name in ("first", "best")),
            row.get("trouble", ""),
        )
        for row in rows
    ]
    show(chosen.json, rows, chosen.function, ("form", "first call", "later calls", ""), table)
    if not checked["takes_library"] and not chosen.json:
        print("Peers are measured for functions whose first parameter is xp, the array library.")
    return code


OURS = ("undecorated", "gt.function", "tier 0 (NumPy, op by op)")
FORMS = (*OURS, *PEERS)
CHECK = "check"


def _in_process(chosen: argparse.Namespace, form: str) -> dict[str, Any]:
    """One form, measured in a new process: first calls are cold, and settings stay apart."""
    command = [sys.executable, "-m", "gradtape", "compare", chosen.function, "--args", chosen.args]
    command += ["--form", form, *(["--grad"] if chosen.grad else [])]
    switches = {"GRADTAPE_JIT": "off"} if form.startswith("tier 0") else {}
    path = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **switches, "PYTHONPATH": path},
    )
    try:
        found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        # The notes of an exception follow its line.
        lines = [line for line in ended.stderr.strip().splitlines() if ERROR.match(line)]
        return {"trouble": lines[-1] if lines else f"it ended with exit code {ended.returncode}"}
    return found


def fault(chosen: argparse.Namespace) -> dict[str, Any]:
    """Why the function cannot be called, if so, and whether it takes the array library."""
    module, _, name = chosen.function.partition(":")
    try:
        function: Any = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        remedy = f"Run it in the folder of {module}.py, or install the module."
        return {"trouble": f"{error}. {remedy}" if error.name == module else str(error)}
    except AttributeError:
        here = vars(import_module(module))
        own = [each for each, thing in here.items() if inspect.isfunction(thing)]
        return {"trouble": f"{module} has no {name!r}; its functions: {', '.join(own) or 'none'}."}
    if not callable(function):
        return {"trouble": f"{module}.{name} is a {type(function).__name__}, not a function."}
    signature = inspect.signature(function)
    takes_library = next(iter(signature.parameters), None) == "xp"
    try:
        arguments = arguments_of(chosen)
    except Exception as error:
        return {
            "trouble": f"--args {chosen.args!r}: {error}. Pass a Python expression with np, gt."
        }
    try:
        signature.bind(*((gt,) if takes_library else ()), *arguments)
    except TypeError as error:
        text = f'{name}{signature}: {error}. Pass arguments as in --args "np.ones((100, 3)), 0.5".'
        return {"trouble": text}
    return {"trouble": "", "takes_library": takes_library}


def arguments_of(chosen: argparse.Namespace) -> tuple[Any, ...]:
    """The arguments that --args gives, as a tuple."""
    found: tuple[Any, ...] = eval(
        f"({chosen.args},)" if chosen.args else "()", {"np": np, "gt": gt}
    )
    return found


def measured(chosen: argparse.Namespace) -> dict[str, Any]:
    """One form: the time of the first call, the best of later calls, and the result."""
    module, _, name = chosen.function.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    arguments = arguments_of(chosen)
    takes_library = next(iter(inspect.signature(function).parameters), None) == "xp"
    if chosen.form in PEERS:
        if not takes_library:
            return {"trouble": "its first parameter is not xp, so it is written for gradtape"}
        if chosen.grad:
            return {"trouble": "gradients of peers are not compared"}
        return _by_peer(chosen.form, function, arguments)
    call = partial(function, gt) if takes_library else function
    if chosen.grad:
        call = gt.grad(call)
    if chosen.form == "gt.function":
        call = gt.function(call)
    tensors = [gt.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    return _timed(lambda: np.asarray(gt.evaluate(call(*tensors))))


def _by_peer(form: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    if find_spec(form) is None:
        return {"trouble": "not installed"}
    # Peers are optional, and slow to import.
    library: Any = import_module({"jax": "jax.numpy"}.get(form, form))
    make = getattr(library, "asarray")  # noqa: B009 - peers have no types here
    arrays = [make(a) if isinstance(a, np.ndarray) else a for a in arguments]
    call = partial(function, library)
    if form == "jax":
        call = sys.modules["jax"].jit(call)
    return _timed(lambda: np.asarray(call(*arrays)))


def _timed(run: Callable[[], np.ndarray]) -> dict[str, Any]:
    begin = time.perf_counter()
    value = run()
    first = time.perf_counter() - begin
    for _ in range(COMPARE_WARM_CALLS):
        run()
    return {"first": first, "best": best(run), "value": np.asarray(value).tolist()}
