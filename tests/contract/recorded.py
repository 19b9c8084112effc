"""A function recorded under a tape, for tests that ask the tape for matrices."""

import gradtape as gt


def recorded(f, *sources, persistent=False):
    """A tape that watched tensors, and what a function made of them."""
    with gt.GradientTape(persistent=persistent) as tape:
        tape.watch(list(sources))
        y = f(*sources)
    return tape, y
