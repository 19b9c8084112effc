"""Keys of derived facts demand everything that a fact depends on."""

import threading

import pytest

import gradtape as gt
from gradtape.ir.derived import Derived, Fact, of_structure
from gradtape.ir.node import table


def test_no_field_of_a_key_has_a_default():
    with pytest.raises(TypeError, match="settings"):
        Fact("pattern", (), ())


def test_contents_and_settings_tell_facts_apart():
    keys = [
        of_structure("pattern", 1),
        Fact("pattern", (1,), ("a",), ()),
        Fact("pattern", (1,), (None,), ()),
        Fact("pattern", (1,), (), ("fast",)),
    ]
    assert len(set(keys)) == 4


def test_a_fact_is_derived_once_even_if_it_is_none():
    derived, calls = Derived(), []
    for _ in range(2):
        assert derived.once(of_structure("pattern"), lambda: calls.append(1)) is None
    assert calls == [1]


def test_threads_that_derive_at_the_same_time_get_one_object():
    derived, barrier, found = Derived(), threading.Barrier(2), []

    def derive():
        barrier.wait()
        return object()

    def run():
        found.append(derived.once(of_structure("body"), derive))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found[0] is found[1]


def test_an_error_is_not_remembered():
    derived = Derived()
    with pytest.raises(ZeroDivisionError):
        derived.once(of_structure("pattern"), lambda: 1 // 0)
    assert derived.once(of_structure("pattern"), lambda: 7) == 7


def test_all_that_a_table_remembers_is_under_keys_of_this_type():
    x = gt.asarray([[1.0, 2.0], [3.0, 4.0]])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        final, rows = gt.scan(lambda c, row: (c * row, gt.sin(row)), x[0], x)
        y = gt.vmap(gt.sum)(rows) + gt.sum(final)
    tape.gradient(y, x)
    tape.jacobian(y, x)
    tape.jacobian(rows, x, sparse=True)
    tape.batch_jacobian(rows, x)
    tape.hessian(gt.sum(y), x)
    kinds = {type(key) for key in table().derived}
    assert kinds == {Fact}
