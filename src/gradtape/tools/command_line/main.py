"""main: parses the arguments, and calls one command."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from gradtape.tools.command_line import bench, cache, compare, doctor, info, profile
from gradtape.version import __version__

COMMANDS = {
    "profile": profile,
    "bench": bench,
    "compare": compare,
    "cache": cache,
    "info": info,
    "doctor": doctor,
}

_EPILOG = """\
where to begin:
  gradtape profile train.py         run a script, and write report.html: time
                                    and memory by line, advice with its gain
  gradtape doctor                   what is off on this machine, and why
  gradtape bench                    what this machine can do
  gradtape compare model:loss       a function undecorated, as gt.function, and
                                    in NumPy; its arguments: --args "np.ones(9)"

in Python (import gradtape as gt, or import gradtape.tf as tf):
  with gt.GradientTape() as tape:   y = f(x); tape.gradient(y, x)
  gt.jacobian(f, sparse=True)(x)    sparse Jacobians
  gt.function(f)                    calls without Python
  with gt.profile() as p:           the same report, of a part of a program

what to call when
  Jacobians take long               tape.jacobian(y, x): all rows at once;
                                    gt.prepare_jacobian(f, x) for many points
  a tape takes long                 tape.report(loss): what is never used,
                                    what it keeps; gradtape profile: which line
  gt.function seems slower          gradtape compare model:loss: both times;
                                    gt.function(f).explain(): why a call ran in
                                    Python
  there are state and branches      plain Python: lists, assign, if and while on
                                    values count as they ran; gt.cond, gt.scan
                                    and gt.while_loop are ops
  gradient is not batch_jacobian    tape.gradient(y, x) sums over y;
                                    tape.batch_jacobian(y, x) has a matrix for
                                    each example

exit codes: 0 fine, 1 a fault was found or the script failed, 2 a wrong call
"""


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    made = argparse.ArgumentParser(
        prog="gradtape",
        description="Automatic differentiation on CPUs: profile programs, check the machine.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"gradtape {__version__}")
    made.add_argument("-v", "--verbose", action="store_true", help="log what happens to stderr")
    commands = made.add_subparsers(dest="command", metavar="command", title="commands")
    for name, module in COMMANDS.items():
        doc = (module.__doc__ or "").split(": ", 1)[1]
        text = doc.split("\n", 1)[0]
        found = commands.add_parser(
            name, help=text, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        found.add_argument("--json", action="store_true", help="print JSON instead of a table")
        if hasattr(module, "add"):
            module.add(found)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code."""
    made = parser()
    chosen = made.parse_args(arguments)
    if chosen.command is None:
        made.print_usage()
        print(
            "commands: "
            + ", ".join(COMMANDS)
            + "\nBegin with `gradtape profile train.py`; `gradtape --help` says what to call when."
        )
        return 2
    if chosen.verbose:
        logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s")
        logging.getLogger("gradtape").setLevel(logging.DEBUG)
    found: int = COMMANDS[chosen.command].run(chosen)
    return found
