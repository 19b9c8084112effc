"""A few hundred bad calls of public callables, with our sentences: see `make fuzz-bad-input`."""

import itertools
from collections import Counter

from tests.contract.bad_input import call_sites
from tests.contract.bad_input.bad_calls import bad_calls
from tests.contract.bad_input.examples import EXAMPLES
from tests.contract.bad_input.workers import outcomes

CALLS = 400
# The examples that this test looks at: one in so many.
EACH = 12


def test_bad_input_gets_our_sentence():
    every = call_sites.sources()
    names = [*EXAMPLES, *sorted(every)[::EACH]]
    examples = {name: every[name] for name in names}
    sites = list(call_sites.sites(examples))
    assert len({site.name for site in sites}) > 80
    calls = itertools.islice(bad_calls(sites, seed=0), CALLS)
    found = [(str(call), outcome) for call, outcome in outcomes(calls, examples, number=1)]
    counts = Counter(outcome.verdict for _, outcome in found)
    refused = ("silent", "slow", "crash", "hang", "example failed", "not reached")
    assert not [each for each in found if each[1].verdict in refused]
    assert not [each for each in found if each[1].other]
    assert counts["internal"] * 100 < CALLS, [e for e in found if e[1].verdict == "internal"]
    assert counts["noted"] * 25 < CALLS, [e for e in found if e[1].verdict == "noted"]
    # The test means something only if most bad values are refused.
    assert counts["ours"] > CALLS / 2
