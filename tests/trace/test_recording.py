"""Recordings: interned from one run to the next, never merged within one."""

import sys

import pytest

import gradtape as gt
from gradtape.ir.node import structural_key, table
from gradtape.trace import recording
from gradtape.trace.recording import Recording, state
from gradtape.trace.value import Handle


def test_recording_again_walks_the_same_graph():
    def run():
        x = gt.asarray([1.0, 2.0])
        y = gt.sin(x * 2.0) + x
        node = y.node
        y.numpy()
        return node

    first = run()
    known = len(table().nodes)
    assert run() is first
    assert len(table().nodes) == known


def test_another_python_scalar_is_the_same_structure():
    def run(factor):
        x = gt.asarray([1.0, 2.0])
        y = x * factor
        node = y.node
        return node, y.tolist()

    (first, doubled), (second, tripled) = run(2.0), run(3.0)
    assert first is second
    assert (doubled, tripled) == ([2.0, 4.0], [3.0, 6.0])


def test_twins_are_two_for_gradients_and_computed_once():
    x = gt.asarray([3.0])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = x * x
        w = y * 5.0 + z
    assert y.node is not z.node
    assert structural_key(y.node.op, y.node.inputs, y.node.params) == structural_key(
        z.node.op, z.node.inputs, z.node.params
    )
    assert tape.gradient(w, y).tolist() == [5.0]
    assert tape.gradient(w, z).tolist() == [1.0]
    assert tape.gradient(z, y, unconnected_gradients="none") is None
    assert tape.gradient(w, x).tolist() == [36.0]

    before = gt.counters().ops_run
    u = gt.asarray([3.0])
    p, q = u * u, u * u
    (p + q).numpy()
    assert gt.counters().ops_run - before == 2
    assert p.tolist() == q.tolist() == [9.0]


def test_twins_repeat_in_the_next_recording():
    def run():
        x = gt.asarray([3.0])
        y, z = x * x, x * x
        found = (y.node, z.node)
        (y + z).numpy()
        return found

    first = run()
    assert run() == first


def test_pending_work_is_cut_where_it_repeats(monkeypatch):
    monkeypatch.setattr(recording, "MOST_PENDING_APPLICATIONS", 100)
    monkeypatch.setattr(sys.modules["gradtape.trace.record"], "MOST_PENDING_APPLICATIONS", 100)
    gt.evaluate(gt.asarray(1.0) + 1.0)
    # A shape of its own: a chain that another test has interned is walked, not cut.
    y = gt.ones((1, 1, 7)) * 1.0
    gt.evaluate(y)
    longest = 0
    for _ in range(500):
        y = y * 0.5 + 1.0
        longest = max(longest, len(state.recording.log))
    assert longest <= 2 * 100 + 2
    assert y.numpy() == pytest.approx(2.0)


def test_a_handle_without_recording_and_value_is_a_mistake():
    with pytest.raises(AssertionError, match="neither a recording nor a value"):
        Handle(None, None, None).enter(Recording())


def test_a_node_is_applied_once_in_a_recording_whatever_others_applied_in_between():
    x = gt.asarray([1.0, 2.0])
    first, second = Recording(), Recording()
    op = (x * x).node.op

    def apply(where):
        leaf = x.enter(where)
        return where.application(op, (leaf, leaf), ())

    order = [first, second, first, second, second, first, first]
    applied = [(where, apply(where)) for where in order]
    for own in (first, second):
        nodes = [node for where, node in applied if where is own]
        assert own.log == nodes
        assert len(set(nodes)) == len(nodes)
        assert all(own.has_applied(node) for node in nodes)
        assert [own.log.position(node) for node in nodes] == list(range(len(nodes)))
    # The newer recording has made three applications, the older one four.
    assert not second.has_applied(first.log[-1])
