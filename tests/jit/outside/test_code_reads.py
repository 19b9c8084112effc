"""What a code object reads: the short scan of the bytecode agrees with `dis`."""

import argparse
import dis
import inspect
import typing

import pytest

from gradtape.jit.guards.names import _SKIPPED, instructions


def nested_code(code):
    inner = [each for each in code.co_consts if inspect.iscode(each)]
    return [*inner, *(found for each in inner for found in nested_code(each))]


@pytest.mark.parametrize("module", [argparse, dis, inspect, typing])
def test_instructions_are_those_of_dis(module):
    whole = compile(inspect.getsource(module), "module", "exec")
    for code in (whole, *nested_code(whole)):
        expected = [
            (each.opname, each.arg or 0, each.argval if each.opcode in dis.hasname else "")
            for each in dis.get_instructions(code)
            if each.opname not in _SKIPPED and each.opname != "EXTENDED_ARG"
        ]
        found = [
            (name, argument if each >= dis.HAVE_ARGUMENT else 0, read)
            for name, argument, read in instructions(code)
            for each in (dis.opmap[name],)
        ]
        assert found == expected


def test_more_names_than_fit_into_a_byte():
    lines = [f"name{number}.part{number}" for number in range(300)]
    code = compile("\n".join(lines), "module", "exec")
    read = [name for _, _, name in instructions(code) if name]
    assert read == [name for line in lines for name in line.split(".")]
