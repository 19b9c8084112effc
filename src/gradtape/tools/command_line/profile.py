"""profile: run a script as it is, and write where its time and memory went.

  gradtape profile train.py --epochs 3        options after the script are the script's
  gradtape profile -o slow.html train.py      another name for the page
  gradtape profile -m package.module          a module, as `python -m` runs it
  gradtape profile --trace t.json train.py    also a trace for Perfetto or speedscope
  gradtape profile --data old.json train.py   also all data, to compare it later:
  gradtape profile --compare old.json new.json

The page opens from disk and needs no network. The script's own exit code is passed on.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import runpy
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from gradtape.tools.command_line.output import print_json
from gradtape.tools.page.page import comparison_page
from gradtape.tools.profiler import comparison
from gradtape.tools.profiler.profile import Profile

log = logging.getLogger("gradtape")


def add(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the page (report.html or comparison.html)"
    )
    parser.add_argument("--trace", metavar="FILE", help="also write a Chrome trace")
    parser.add_argument("--data", metavar="FILE", help="also write all data as JSON")
    parser.add_argument(
        "--compare",
        nargs=2,
        metavar=("BEFORE", "AFTER"),
        help="compare two files that --data wrote; no script is run",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print no summary")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module, not a script")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="script [args]")


def run(chosen: argparse.Namespace) -> int:
    """Run the script under a profile, or compare two profiles."""
    if chosen.compare:
        return _compare(chosen)
    arguments = [*filter(None, [chosen.module]), *chosen.rest]
    if not arguments:
        print("gradtape profile: no script is named. See gradtape profile --help.")
        return 2
    if chosen.module is None and not Path(arguments[0]).is_file():
        print(f"gradtape profile: there is no file {arguments[0]}. Name a script that exists.")
        return 2
    found = Profile(" ".join(arguments))
    with _argv(arguments, chosen.module is None):
        code = _executed(found, chosen.module, arguments[0])
    target = found.save(chosen.output or "report.html")
    log.debug("wrote %s", target)
    if chosen.trace:
        found.to_chrome_trace(chosen.trace)
    if chosen.data:
        found.to_json(chosen.data)
    if chosen.json:
        print_json(found.data)
    elif not chosen.quiet:
        print(f"\n{found}\n\nThe page is {target}.", file=sys.stderr)
    return code


def _compare(chosen: argparse.Namespace) -> int:
    """Write a page with two profiles, and print the differences."""
    try:
        found = comparison.comparison(*map(comparison.read, chosen.compare))
    except ValueError as error:
        print(f"gradtape profile: {error}")
        return 2
    target = Path(chosen.output or "comparison.html")
    target.write_text(comparison_page(found), encoding="utf-8")
    if chosen.json:
        print_json(found)
    elif not chosen.quiet:
        print(f"{comparison.text(found)}\n\nThe page is {target}.")
    return 0


def _executed(found: Profile, module: str | None, script: str) -> int:
    """Run the program; gives its exit code. An error is printed, and the profile kept."""
    found.start()
    try:
        if module is None:
            runpy.run_path(script, run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        found.stop()
    return 0


@contextlib.contextmanager
def _argv(arguments: list[str], is_script: bool) -> Iterator[None]:
    """The arguments and the path of the script."""
    before = sys.argv, list(sys.path)
    sys.argv = list(arguments)
    sys.path.insert(0, str(Path(arguments[0]).resolve().parent) if is_script else "")
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before
