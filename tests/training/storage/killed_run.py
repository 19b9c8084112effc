"""A training run that may be killed, as a module with arguments `folder steps every`.

It goes on from the newest checkpoint in the folder, and writes one line after each step: the number
of the step and a digest of all bits of the state. Dropout draws from the stream of `gt.random`, the
batches are shuffled, and the learning rate follows a schedule, so that everything that has to be
restored shows.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np

import gradtape as gt


def digest(model: gt.nn.Module, optimizer: Any, batches: Any) -> str:
    """All bits of the state."""
    found = hashlib.sha256()
    for state in (model.state_dict(), optimizer.state_dict()):
        for name, array in state.items():
            found.update(name.encode() + np.ascontiguousarray(array).tobytes())
    random = gt.random.get_state()
    generator = model.layers[1].generator.state
    found.update(repr((random, generator, batches.epoch, batches.position)).encode())
    return found.hexdigest()[:16]


def run(folder: str, steps: int, every: int, width: int = 64) -> None:
    """Train for so many steps in all, and print a line after each."""
    gt.random.seed(5)
    data = np.random.default_rng(0)
    x, y = data.normal(size=(96, 12)), data.normal(size=(96, 1))
    model = gt.nn.Sequential(
        [
            gt.nn.Dense(width, activation="tanh", in_features=12),
            gt.nn.Dropout(0.2, seed=3),
            gt.nn.Dense(width, activation="gelu", in_features=width),
            gt.nn.Dropout(0.1),
            gt.nn.Dense(1, in_features=width),
        ]
    )
    schedule = gt.optimizers.schedules.ExponentialDecay(0.01, 50, 0.9)
    optimizer = gt.optimizers.Adam(schedule, global_clipnorm=1.0)
    batches = gt.training.Batches((x, y), batch_size=16, shuffle=gt.random.Generator(8))

    @gt.function
    def step(x: Any, y: Any) -> gt.Tensor:
        return optimizer.minimize(lambda: gt.mean((model(x) - y) ** 2), model.parameters())

    state = {"model": model, "optimizer": optimizer, "batches": batches}
    with gt.Checkpointer(folder, keep=2, every=every) as checkpoints:
        found = checkpoints.restore(into=state)
        done = 0 if found is None else found.step
        print("begin", done, digest(model, optimizer, batches), flush=True)
        while done < steps:
            for part in batches:
                step(*part)
                done += 1
                print("step", done, digest(model, optimizer, batches), flush=True)
                checkpoints.save(done, state)
                if done == steps:
                    break
    print("end", done, digest(model, optimizer, batches), flush=True)


if __name__ == "__main__":
    run(sys.argv[1], *map(int, sys.argv[2:]))
