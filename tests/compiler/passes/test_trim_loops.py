"""What becomes of loops and branches in a plan: what is run, saved and read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes import PASSES
from gradtape.ir.program import Program
from gradtape.ir.verify import verify
from gradtape.ops.control.bodies import held

W = gt.asarray(np.random.default_rng(0).normal(size=(4, 4)))
START = gt.asarray(np.ones(4))
INPUTS = gt.asarray(np.random.default_rng(1).normal(size=(9, 4)))


def optimized(*tensors: Any) -> Program:
    """The program of tensors after all passes, each verified."""
    found = gt.program_of(*tensors)
    for step in PASSES:
        found = verify(step(found))
        for node in found.nodes:
            for body in held(node):
                verify(body)
    return found


def loops(found: Program) -> list[Any]:
    return [node for node in found.nodes if node.op.family == "control"]


def names(body: Program) -> list[str]:
    return [node.op.name for node in body.nodes]


def cell(x: Any, u: Any) -> Any:
    x = gt.tanh(W @ x + u)
    return x, gt.sum(x)


def test_a_result_that_nobody_reads_is_not_computed():
    final, rows = gt.scan(cell, START, INPUTS)
    (loop,) = loops(optimized(final))
    assert len(loop.spec) == 1
    assert names(loop.params[0]) == ["matmul", "add", "tanh"]
    (loop,) = loops(optimized(rows))
    assert len(loop.spec) == 2


def test_a_carried_value_that_nobody_reads_is_dropped():
    final, _ = gt.scan(lambda c, u: ((c[0] + u, c[1] * gt.sum(c[0])), None), (START, 1.0), INPUTS)
    (loop,) = loops(optimized(final[0]))
    assert len(loop.spec) == 1
    assert not any(node.op.name == "sum" for node in loop.params[0].nodes)


def test_what_is_handed_on_is_a_constant():
    final, _ = gt.scan(lambda c, u: ((c[0] + c[1], c[1]), None), (START, START * 2.0), INPUTS)
    (loop,) = loops(optimized(*final))
    assert loop.params[1:3] == (1, 1)


def test_what_every_step_computes_alike_is_computed_once():
    final, _ = gt.scan(lambda c, u: (gt.exp(W) @ c + u, None), START, INPUTS)
    found = optimized(final)
    (loop,) = loops(found)
    assert names(loop.params[0]) == ["matmul", "add"]
    assert "exp" in [node.op.name for node in found.nodes]


def test_a_result_is_stacked_once():
    _, rows = gt.scan(lambda c, u: (c + u, (c, c, u)), START, INPUTS)
    (loop,) = loops(optimized(*rows))
    assert len(loop.spec) == 2


def gradient(checkpoint: Any = None) -> Any:
    with gt.GradientTape() as tape:
        tape.watch([W, START])
        final, rows = gt.scan(cell, START, INPUTS, checkpoint=checkpoint)
        loss = gt.sum(final) + gt.sum(rows)
    return loss, tape.gradient(loss, [W, START])


def test_the_way_there_runs_once():
    loss, slopes = gradient()
    forward, backward = loops(optimized(loss, *slopes))
    assert not forward.keywords["reverse"]
    assert backward.keywords["reverse"]


def test_what_weights_receive_is_one_product_after_the_loop():
    _, slopes = gradient()
    found = optimized(*slopes)
    _, backward = loops(found)
    assert names(backward.params[0]).count("matmul") == 1
    products = [node for node in found.nodes if node.op.name == "matmul"]
    assert [node.shape for node in products] == [(4, 4)]
    assert products[0].inputs[0].shape == (4, 9)


def test_forward_mode_saves_nothing():
    with gt.ForwardAccumulator(START, START) as accumulator:
        final, _ = gt.scan(cell, START, INPUTS)
    (loop,) = loops(optimized(final, accumulator.jvp(final)))
    assert [of.shape for of in loop.spec] == [(4,), (4,)]


def test_a_loop_that_runs_until_an_end_is_run_once_with_its_tangents():
    with gt.ForwardAccumulator(START, START) as accumulator:
        final = gt.while_loop(lambda x: gt.sum(x) < 100.0, lambda x: x * 1.5, START)
    (loop,) = loops(optimized(final, accumulator.jvp(final)))
    assert len(loop.spec) == 3


def test_a_choice_is_made_once_with_its_tangents():
    with gt.ForwardAccumulator(START, START) as accumulator:
        y = gt.cond(gt.sum(START) > 0.0, gt.sin, gt.cos, START)
    assert len(loops(optimized(y, accumulator.jvp(y)))) == 1


def test_checkpoints_save_less():
    def stacked(checkpoint: Any) -> int:
        _, slopes = gradient(checkpoint)
        return sum(of.nbytes for loop in loops(optimized(*slopes)) for of in loop.spec)

    assert stacked(3) < stacked(None)


def test_after_a_look_at_the_loss_only_the_way_back_is_left():
    with gt.GradientTape() as tape:
        tape.watch(W)
        final, rows = gt.scan(cell, START, INPUTS)
        loss = gt.sum(final) + gt.sum(rows)
    float(loss)
    slope = tape.gradient(loss, W)
    (loop,) = loops(optimized(slope))
    assert loop.keywords["reverse"]


def test_two_loops_that_need_each_other_stay_apart():
    first, _ = gt.scan(cell, START, INPUTS)
    second, _ = gt.scan(cell, first, INPUTS)
    assert len(loops(optimized(second))) == 2


def test_equal_bodies_are_one_program():
    bodies = []
    for _ in range(2):
        final, _ = gt.scan(cell, START, INPUTS)
        (loop,) = [n for n in gt.program_of(final).nodes if n.op.family == "control"]
        bodies.append(loop.params[0])
    assert bodies[0] is bodies[1]


@pytest.mark.parametrize("flag", [True, False])
def test_a_loop_without_steps_computes_nothing_that_could_fail(flag):
    singular = np.zeros((2, 2))
    steps = np.ones((1 if flag else 0, 2))

    def run() -> Any:
        return gt.scan(lambda c, u: (gt.linalg.solve(singular, c) + u, None), np.ones(2), steps)[0]

    if flag:
        with pytest.raises(np.linalg.LinAlgError):
            run().numpy()
    else:
        assert run().tolist() == [1.0, 1.0]
