"""One writer of Python source: names, indentation, and code that is shared."""

import pytest

from gradtape.runtime.source_text import SourceText


def constant_function(thing: object) -> object:
    text = SourceText()
    name = text.name(thing, "thing")
    text.line("def give():")
    with text.block():
        text.line("if True:")
        with text.block():
            text.line(f"return {name}")
    return text.compiled("give")


def test_equal_text_shares_code_but_not_objects():
    one, two = constant_function(1), constant_function(2)
    assert (one(), two()) == (1, 2)
    assert one.__code__ is two.__code__


def test_names_are_told_apart():
    text = SourceText(kind=int)
    assert [text.name(thing, "kind") for thing in (int, float)] == ["kind1", "kind2"]


def test_a_name_may_be_rebound_after_compilation():
    text = SourceText()
    text.name(1, "number")
    text.line("def give(): return number")
    give = text.compiled("give")
    text.rebind("number", 2)
    assert give() == 2
    with pytest.raises(KeyError):
        text.rebind("unknown", 3)
