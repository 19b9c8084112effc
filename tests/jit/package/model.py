"""Functions that import when they are called."""

import gradtape as gt


@gt.function
def by_module(x):
    from . import settings

    return x * settings.RATE


@gt.function
def by_name(x):
    from .settings import RATE

    return x * RATE
