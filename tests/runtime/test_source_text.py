"""Functions from Python source: equal text shares code, not objects."""

from gradtape.runtime.source_text import written_out


def constant_function(thing: object) -> object:
    return written_out("give", ["def give():", "    if True:", "        return thing"], thing=thing)


def test_equal_text_shares_code_but_not_objects():
    one, two = constant_function(1), constant_function(2)
    assert (one(), two()) == (1, 2)
    assert one.__code__ is two.__code__
