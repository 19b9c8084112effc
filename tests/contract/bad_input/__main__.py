"""Bad input for every public callable: `python -m tests.contract.bad_input --count 20000`.

Good calls come from the examples of the documentation; one or two arguments are exchanged for bad
ones. The command prints the counts and fails if a call crashed or hung, if a value was silently
accepted, or if a hundredth of the errors or more are internal, or one in 25 is noted (see `judge`).

With `--sweep` the calls are not random: every parameter that is a number, a flag or an axis gets
every senseless value (see `sweep`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter

from tests.contract.bad_input import call_sites
from tests.contract.bad_input.bad_calls import bad_calls
from tests.contract.bad_input.sweep import sweep
from tests.contract.bad_input.workers import EACH, outcomes

WORDS = {
    "ours": "refused with our sentence", "user's": "raised by the user's own code",
    "accepted": "accepted, with a result", "long": "long work, interrupted",
    "noted": "with a note that asks for a report", "internal": "internal errors",
    "silent": "silently accepted", "slow": "too slow",
    "crash": "crashes", "hang": "hangs",
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="part of the callables' names")
    parser.add_argument("--sweep", action="store_true", help="every senseless value, in order")
    parser.add_argument("--log", help="a file for one line of JSON for each call")
    options = parser.parse_args()
    start = time.perf_counter()
    examples = call_sites.sources()
    sites = [site for site in call_sites.sites(examples) if options.only in site.name]
    names = {site.name for site in sites}
    made_calls = (
        sweep(sites, examples)
        if options.sweep
        else outcomes(
            itertools.islice(bad_calls(sites, options.seed), options.count), examples,
            options.workers,
        )
    )  # fmt: skip
    counts, listed = Counter[str](), Counter[str]()
    log = open(options.log, "w") if options.log else None  # noqa: SIM115
    for call, outcome in made_calls:
        counts[outcome.verdict] += 1
        if log:
            row = [call.site.name, call.edits, call.site.example, vars(outcome)]
            log.write(json.dumps(row) + "\n")
        if outcome.verdict in ("internal", "noted"):
            listed[f"{outcome.verdict}: {outcome.place}: {outcome.kind}: {outcome.text[:80]}"] += 1
        listed.update(f"other error in {text}: {call}: {outcome.text}" for text in outcome.other)
        counts["other"] += bool(outcome.other)
        if outcome.verdict in ("silent", "slow", "crash", "hang"):
            listed[f"{outcome.verdict}: {call} {outcome.text}"] += 1
    for text, times in listed.most_common(60):
        print(f"{times:5} × {text}")
    made = counts.total() - counts["other"]
    print(f"calls: {made} of {len(names)} callables")
    for verdict, words in WORDS.items():
        print(f"{words}: {counts[verdict]}")
    print(f"of one call in {EACH}, made in all modes, with another error in one: {counts['other']}")
    for verdict in counts.keys() - WORDS.keys() - {"other"}:
        print(f"{verdict}: {counts[verdict]}")
    print(f"seconds: {time.perf_counter() - start:.0f}")
    failed = any(counts[word] for word in ("silent", "slow", "crash", "hang", "other"))
    many = counts["internal"] * 100 >= made or counts["noted"] * 25 >= made
    return int(failed or many)


if __name__ == "__main__":
    sys.exit(main())
