"""gt.caches: every cache is listed, bounded, and empty after it was cleared."""

import gradtape as gt
from gradtape.caches import register, remembered


def test_a_function_remembers_and_forgets():
    calls = []

    @remembered(2)
    def square(n):
        calls.append(n)
        return n * n

    for n in (1, 2, 1, 3, 1):
        square(n)
    assert calls == [1, 2, 3]
    (found,) = [each for each in gt.caches() if each.name.endswith(".square")]
    assert (found.entries, found.bound, found.nbytes) == (2, 2, None)
    found.clear()
    assert found.entries == 0
    square(1)
    assert calls == [1, 2, 3, 1]


def test_a_table_is_entered():
    table = {"a": b"12", "b": b"345"}
    register("tests.table", table, 8, nbytes=lambda: sum(map(len, table.values())))
    found = gt.caches()["tests.table"]
    assert (found.entries, found.nbytes, found.bound) == (2, 5, 8)
    assert "tests.table" in repr(gt.caches())
    found.clear()
    assert not table


def test_clearing_all_changes_no_result():
    x = gt.Variable([1.0, 2.0, 3.0])

    def slope():
        with gt.GradientTape() as tape:
            y = gt.sum(gt.sin(x[1:]) * gt.einsum("i,i->i", x, x)[:2])
        return tape.gradient(y, x).numpy().tolist()

    before = slope()
    gt.caches().clear()
    assert slope() == before
