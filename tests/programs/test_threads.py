"""Many threads call the same functions and variables, with tapes of their own.

`make test-threads` lets 64 run for half a minute and tells what they did.
"""

import os

import pytest
from tests.programs.stress import Shop, audit, living, run

SECONDS = float(os.environ.get("GRADTAPE_STRESS_SECONDS", "2"))
# A machine that does other things as well takes its time with 64 of them.
THREADS = 64 if SECONDS > 2 else 16
# After the time is over, for what was begun. A deadlock lasts longer.
PATIENCE = 300.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:gt.function. .* has been captured")
def test_no_wrong_value_no_deadlock_and_no_leak(capsys):
    shop = Shop()
    # A first round for what stays: the second one must leave nothing more.
    notes = run(shop, THREADS, min(SECONDS, 5.0), PATIENCE)
    audit(shop, notes)
    before = living()
    notes += run(shop, THREADS, SECONDS, PATIENCE)
    audit(shop, notes)
    after = living()
    grown = {name: after[name] - before[name] for name in after if after[name] > before[name]}
    if SECONDS > 2:
        told = ", ".join(f"{name} {count}" for name, count in sorted(notes.items()))
        with capsys.disabled():
            print(f"\n{THREADS} threads, {SECONDS:g} s. Done: {told}.")
            print(f"Objects: {dict(after)}, more than before: {grown}.")
    # One for each thread would be THREADS of a kind, one for each task thousands.
    assert max(grown.values(), default=0) < THREADS // 2, grown
