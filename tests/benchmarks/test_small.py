"""Small programs: gradtape's forms agree with NumPy by hand, and rounds and calls are counted."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.process import Failed
from benchmarks.small import FORMS, PROGRAMS, Found, Server, expected, lines, noting


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("variant", ["plain", "function"])
def test_gradtape_agrees_with_numpy(name: str, variant: str) -> None:
    server = Server("gradtape", variant)
    answer = server.prepare(name)["answer"]
    np.testing.assert_allclose(answer, expected(PROGRAMS[name]), rtol=1e-9)  # type: ignore[arg-type]
    program = PROGRAMS[name]
    rounds = 2 * program.together
    assert len(server.turn(rounds)["seconds"]) == 2  # type: ignore[arg-type]


def test_calls_are_counted() -> None:
    server = Server("numpy", "plain")
    server.prepare("tape")
    assert server.calls() == {"python": 1.0, "native": 0.0}


def test_every_program_has_a_form_of_gradtape_and_of_numpy() -> None:
    libraries = {form.library for form in FORMS}
    for program in PROGRAMS.values():
        assert "gradtape" in program.libraries
        assert set(program.libraries) <= libraries


def test_newton_counts_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.small.NEWTON_ROUNDS", 5)
    with pytest.raises(ValueError, match="7 rounds, not 5"):
        expected(PROGRAMS["newton"])


def test_a_failed_process_is_a_remark() -> None:
    cell = Found([])
    with noting(cell):
        raise Failed("the process ended")
    assert cell.trouble == "the process ended"
    shown = lines("tape", FORMS[:2], {FORMS[0]: Found([1e-6, 3e-6, 4e-6]), FORMS[1]: cell}, False)
    assert shown[0].split()[-4:] == ["1", "/", "3", "–"]
    assert shown[1:] == ["  undecorated: the process ended"]
