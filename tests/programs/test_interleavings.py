"""Equal computations over tapes, functions, callbacks and threads: nothing shared is mixed up.

`python -m tests.programs.interleavings --count 10000` runs more of them.
"""

import pytest
from tests.programs.interleavings import Interleaving, run

from gradtape.trace.recording import Recording

COUNT = 300

pytestmark = pytest.mark.filterwarnings("ignore:gt.function. .*")


@pytest.mark.slow
def test_interleavings_give_the_derivatives_of_a_program_in_which_nothing_is_shared():
    wrong = {seed: found[0] for seed in range(COUNT) if (found := run(seed))}
    assert not wrong


def test_the_interleavings_notice_nodes_that_are_shared(monkeypatch):
    # As if every application that another recording has made since were the first one here.
    monkeypatch.setattr(
        Recording, "has_applied", lambda recording, node: node.stamp == recording.stamp
    )
    programs = [Interleaving(seed) for seed in range(COUNT)]
    assert any(program.run() for program in programs)
