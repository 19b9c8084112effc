"""Steps of learning: deep Q-learning, policy gradients, a graph network."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import SMOOTH, Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")


def layers(rng: Any, *sizes: int) -> dict[str, Any]:
    """Weights and biases of dense layers, as they are drawn before training."""
    found = {}
    for place, (before, after) in enumerate(itertools.pairwise(sizes)):
        drawn = rng.standard_normal((before, after)) / before**0.5
        found[f"w{place}"] = drawn.astype("float32")
        found[f"b{place}"] = np.zeros(after, "float32")
    return found


def replay(stored: int, batch: int, hidden: int) -> Arrays:
    rng = np.random.default_rng(211)
    online = layers(rng, 4, hidden, hidden, 2)
    frozen = {f"frozen_{name}": value for name, value in layers(rng, 4, hidden, hidden, 2).items()}
    return {
        **online,
        **frozen,
        "state": rng.standard_normal((stored, 4)).astype("float32"),
        "action": rng.integers(0, 2, stored),
        "reward": rng.standard_normal(stored).astype("float32"),
        "after": rng.standard_normal((stored, 4)).astype("float32"),
        "ended": (rng.uniform(size=stored) < 0.05).astype("float32"),
        "chosen": rng.integers(0, stored, batch),
    }


def dense(xp: Any, x: Any, *weights: Any) -> Any:
    for place in range(0, len(weights) - 2, 2):
        x = xp.tanh(x @ weights[place] + weights[place + 1])
    return x @ weights[-2] + weights[-1]


def q_learning(xp: Any, *given: Any) -> Any:
    """The loss of a batch that is looked up in the store of experiences."""
    online, frozen = given[:6], given[6:12]
    state, action, reward, after, ended, chosen = given[12:]
    best = xp.max(dense(xp, after[chosen], *frozen), axis=1)
    target = xp.stop_gradient(reward[chosen] + 0.99 * (1.0 - ended[chosen]) * best)
    values = dense(xp, state[chosen], *online)
    value = xp.take_along_axis(values, action[chosen][:, None], axis=1)[:, 0]
    error = xp.abs(value - target)
    return xp.mean(xp.where(error < 1.0, 0.5 * error**2, error - 0.5))


def episodes(steps: int, count: int, hidden: int) -> Arrays:
    rng = np.random.default_rng(212)
    return {
        **layers(rng, 8, hidden, 4),
        "state": rng.standard_normal((steps, count, 8)).astype("float32"),
        "action": rng.integers(0, 4, (steps, count)),
        "reward": rng.standard_normal((steps, count)).astype("float32"),
    }


def policy_gradient(
    xp: Any, w0: Any, b0: Any, w1: Any, b1: Any, state: Any, action: Any, reward: Any
) -> Any:
    """The loss of a policy by its discounted returns."""

    def step(later: Any, now: Any) -> Any:
        later = now + 0.99 * later
        return later, later

    _, gain = xp.scan(step, xp.zeros_like(reward[0]), reward, reverse=True)
    centred = gain - xp.mean(gain)
    gain = centred / xp.sqrt(xp.mean(centred**2) + 1e-8)
    log_policy = xp.log_softmax(dense(xp, state, w0, b0, w1, b1), axis=2)
    taken = xp.take_along_axis(log_policy, action[:, :, None], axis=2)[:, :, 0]
    entropy = -xp.mean(xp.sum(xp.exp(log_policy) * log_policy, axis=2))
    return -xp.mean(taken * gain) - 0.01 * entropy


def network(nodes: int, edges: int, width: int) -> Arrays:
    rng = np.random.default_rng(213)
    drawn = layers(rng, 2 * width, width, width)
    return {
        **drawn,
        "readout": (rng.standard_normal((width, 3)) / width**0.5).astype("float32"),
        "x": rng.standard_normal((nodes, width)).astype("float32"),
        "sender": rng.integers(0, nodes, edges),
        "receiver": rng.integers(0, nodes, edges),
        "label": rng.integers(0, 3, nodes),
    }


def graph_network(
    xp: Any,
    w0: Any,
    b0: Any,
    w1: Any,
    b1: Any,
    readout: Any,
    x: Any,
    sender: Any,
    receiver: Any,
    label: Any,
) -> Any:
    """Three rounds of messages along edges, then the cross-entropy of the nodes' labels."""
    for _ in range(3):
        message = xp.tanh(xp.concat([x[sender], x[receiver]], axis=1) @ w0 + b0)
        x = x + xp.tanh(xp.segment_sum(message, receiver, x.shape[0]) @ w1 + b1)
    log_share = xp.log_softmax(x @ readout, axis=1)
    return -xp.mean(xp.take_along_axis(log_share, label[:, None], axis=1))


def descent(
    name: str,
    title: str,
    inputs: Any,
    formula: Any,
    by: tuple[int, ...],
    tiny: Any,
    step: float = SMOOTH,
) -> Row:
    """A step of descent in float32."""
    return Row(
        name,
        title,
        inputs,
        formula,
        "descent",
        by,
        dtype="float32",
        tolerance=1e-3,
        libraries=LIBRARIES,
        step=step,
        tiny=tiny,
    )


WORKLOADS = tuple(
    workload(row)
    for row in (
        descent(
            "q-learning",
            "deep Q-learning, a batch of 64 from a store of 10,000, one step",
            partial(replay, 10_000, 64, 64),
            q_learning,
            (0, 1, 2, 3, 4, 5),
            partial(replay, 10, 4, 3),
        ),
        descent(
            "policy-gradient",
            "policy gradient, 16 episodes of 100 steps, one step",
            partial(episodes, 100, 16, 32),
            policy_gradient,
            (0, 1, 2, 3),
            partial(episodes, 4, 2, 3),
        ),
        descent(
            "graph-network",
            "graph network, 3 rounds on 300 nodes and 1,500 edges, one step",
            partial(network, 300, 1500, 32),
            graph_network,
            (0, 1, 2, 3, 4),
            partial(network, 5, 8, 3),
        ),
    )
)
