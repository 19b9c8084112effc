"""The lines of frames, also where Python gives none."""

import sys
from types import CodeType, SimpleNamespace

from gradtape.ir.origin import current_line, place_of
from gradtape.tools.profiler.tables import shown


def here():
    return sys._getframe(1)


def test_line_of_a_running_frame():
    frame = here()
    assert current_line(frame) == frame.f_lineno


def code() -> CodeType:
    namespace: dict[str, object] = {}
    exec(
        compile("def f():\n    a = 1\n    b = 2\n    return a + b\n", "<lines>", "exec"), namespace
    )
    return namespace["f"].__code__  # type: ignore[attr-defined]


def test_an_instruction_without_a_line_has_that_of_those_before():
    of = code()
    for begin, end, line in of.co_lines():
        frame = SimpleNamespace(f_lineno=None, f_code=of, f_lasti=begin)
        assert current_line(frame) == line, (begin, end)


def test_a_function_without_lines_has_its_first():
    of = code().replace(co_linetable=b"")
    frame = SimpleNamespace(f_lineno=None, f_code=of, f_lasti=0)
    found = current_line(frame)
    assert found == of.co_firstlineno
    assert shown(place_of(of, found))["line"] == found
