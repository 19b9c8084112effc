"""Figure: plots of matplotlib that show in scripts and in notebooks."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import Any

from gradtape.display.notebook import in_notebook, shell


def new_figure(name: str, remedy: str = "", *, shown: bool = True) -> Any:
    """A figure of matplotlib; `name` and `remedy` go into the error if that is not installed.

    In IPython, or where the program uses pyplot, pyplot knows the figure unless `shown` is false:
    `plt.show()` shows it, and a notebook shows it below the cell, once.

    >>> axes = gt.libraries.new_figure("History.plot").subplots()  # doctest: +SKIP
    """
    try:
        # An optional package.
        from matplotlib.figure import Figure

        is_used = "matplotlib.pyplot" in sys.modules or shell() is not None
        figure: Any = _pyplot().figure() if shown and is_used else Figure()
    except ImportError:
        raise ImportError(
            f"{name} needs matplotlib, which is not installed. Install it with "
            f"`pip install gradtape[plot]`{remedy}."
        ) from None
    if in_notebook():
        figure._ipython_display_ = partial(_show, figure)
    return figure


def _show(figure: Any) -> None:
    """Display a figure that is the result of a cell, and let pyplot not show it again."""
    del figure._ipython_display_
    # For kernels without matplotlib's inline backend, which has formats of its own.
    figure._repr_png_ = partial(import_module("IPython.core.pylabtools").print_figure, figure)
    import_module("IPython.display").display(figure)
    _pyplot().close(figure)


def _pyplot() -> Any:
    # An optional package, and slow to import.
    return import_module("matplotlib.pyplot")
