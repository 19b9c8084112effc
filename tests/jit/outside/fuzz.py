"""All checks of gt.function with changing surroundings, with counts: `make fuzz-functions`.

Random programs, all scenarios with both recorders, and random interleavings of equal computations.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import sys
import time
from collections import Counter

from tests.jit.outside.all_scenarios import SCENARIOS, run_scenario
from tests.jit.outside.random_programs import Findings, run_program
from tests.jit.outside.scenarios import HIDDEN, stale_calls
from tests.programs import interleavings

import gradtape as gt

# So many random programs, or interleavings, are one piece of work.
PIECE = 50


def programs(seeds: range, calls: int) -> Findings:
    findings = Findings()
    for seed in seeds:
        run_program(seed, calls, findings)
    return findings


def scenarios(names: list[str], recorder: str) -> tuple[int, list[str], Counter[str]]:
    """Calls, scenarios that went wrong, and why scenarios ran undecorated."""
    gt.set_recorder(recorder)
    calls, wrong, reasons = 0, [], Counter[str]()
    for name in names:
        if name in HIDDEN:
            continue
        verdict = run_scenario(SCENARIOS[name], before=3 if recorder == "native" else 45)
        calls += verdict.calls
        wrong += [f"{name} ({recorder}): {each}" for each in verdict.wrong[:1]]
        reasons.update(f"{name}: {each}" for each in verdict.refused[:1])
    gt.set_recorder("auto")
    return calls, wrong, reasons


def staleness(names: list[str], before: int) -> tuple[list[str], list[str]]:
    """Scenarios with a stale call before the next check, and with one after it."""
    found = {name: stale_calls(SCENARIOS[name], before) for name in names}
    return [n for n, each in found.items() if each[0]], [n for n, each in found.items() if each[1]]


def interleaved(seeds: range) -> list[str]:
    """What went wrong in random interleavings."""
    return [
        f"interleaving {seed}: {each}"
        for seed in seeds
        for each in interleavings.Interleaving(seed).run()
    ]


def pieces(seed: int, count: int) -> list[range]:
    ends = range(seed, seed + count, PIECE)
    return [range(start, min(start + PIECE, seed + count)) for start in ends]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="random programs")
    parser.add_argument("--calls", type=int, default=60, help="calls of each program")
    parser.add_argument("--interleavings", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    start, wrong = time.perf_counter(), []
    with concurrent.futures.ProcessPoolExecutor(options.workers) as pool:
        names = list(SCENARIOS)
        changes = [pool.submit(scenarios, names, each) for each in ("auto", "native")]
        random = [
            pool.submit(programs, each, options.calls)
            for each in pieces(options.seed, options.count)
        ]
        delays = {each: pool.submit(staleness, names, each) for each in (1, 3, 20, 200)}
        equal = [
            pool.submit(interleaved, each) for each in pieces(options.seed, options.interleavings)
        ]
        total = Findings()
        for future in random:
            found = future.result()
            total.programs += found.programs
            total.calls += found.calls
            total.changes += found.changes
            total.mismatches += found.mismatches
            total.undecorated += found.undecorated
        stale = [each.result() for each in changes]
        delayed = {before: each.result() for before, each in delays.items()}
        unequal = [each for future in equal for each in future.result()]
    print(f"programs       {total.programs}, {total.calls} calls, {total.changes} changes outside")
    print(f"mismatches     {len(total.mismatches)}")
    print(f"undecorated    {total.undecorated.total()} programs, some of whose calls run in Python")
    for reason, count in total.undecorated.most_common():
        print(f"  {count:6} {reason}")
    print(
        f"scenarios      {len(names)}, with each recorder, {sum(each[0] for each in stale)} calls"
    )
    wrong = [each for _, found, _ in stale for each in found]
    print(f"stale at once  {len(wrong)} of those that guards see")
    print(f"undecorated    {stale[0][2].total()} scenarios")
    for reason in stale[0][2]:
        print(f"         {reason}")
    for before, (early, late) in delayed.items():
        print(
            f"changed after {before:3} calls: {len(early)} of {len(names)} scenarios see a stale "
            f"call before the next check, {len(late)} after it"
        )
        wrong += [f"{name}: stale after a check" for name in late]
        if len(early) > 0.1 * len(names):
            wrong.append(f"more than a tenth of the scenarios are stale: {early}")
    print(f"interleavings  {options.interleavings}, wrong {len(unequal)}")
    print(f"seconds        {time.perf_counter() - start:.0f}")
    wrong += total.mismatches + unequal
    for each in wrong[:20]:
        print(each)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
