"""Forms: the ways to use each library, with its compiler and its way to wait for a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.workload import Wrap


@dataclass(frozen=True)
class Form:
    """A column of the table: a library and how it is used."""

    title: str
    library: str
    variant: str = "plain"
    environment: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False  # only with --compile

    @property
    def peer(self) -> bool:
        return self.library != "gradtape"

    @property
    def compiles(self) -> bool:
        """Whether it compiles programs: gradtape does in all of its forms."""
        return not self.peer or self.variant != "plain"


QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}

FORMS = (
    Form("gradtape", "gradtape"),
    Form("function", "gradtape", "function"),
    Form("tf eager", "tensorflow", "plain", QUIET),
    Form("tf.function", "tensorflow", "function", QUIET),
    Form("tf XLA", "tensorflow", "xla", QUIET),
    Form("jax jit", "jax", "jit"),
    Form("torch", "torch"),
    # torch's threads spin while others want the cores, so one thread may be faster.
    Form("torch 1 thr", "torch", "plain", {"OMP_NUM_THREADS": "1"}),
    Form("torch comp.", "torch", "compile", optional=True),
    Form("autograd", "autograd"),
    Form("numpy", "numpy"),  # rows that have their derivative by hand
)


@dataclass(frozen=True)
class Adaptor:
    """The functions of an imported library that the server needs."""

    wrap: Wrap
    wait: Callable[[Any], Any]  # returns when the result is computed
    array: Callable[[Any], Any]  # one leaf of a result, as a NumPy array
    before: Callable[[], object] = lambda: None  # runs before each call, and is not timed
    # The Python calls of all compiled plans so far, from libraries that count them.
    python_calls: Callable[[], int | None] = lambda: None


def adaptor(library: str, variant: str, dtype: str) -> Adaptor:
    """Import the library and return its adaptor."""
    return ADAPTORS[library](variant, dtype)


def plain(function: Any) -> Any:
    return function


def nothing(result: object) -> None:
    return None


def gradtape(variant: str, dtype: str) -> Adaptor:
    import numpy as np

    import gradtape as gt

    def array(leaf: Any) -> Any:
        if hasattr(leaf, "toarray"):  # a sparse matrix, or a pattern
            found = leaf.toarray()
            return found.astype(dtype) if found.dtype == bool else found
        return np.asarray(leaf)

    wraps = {"plain": plain, "function": gt.function}
    # Every call of a row has the same matrix: without this, none but the first would factor it.
    from gradtape.ops.matrices.sparse_solve import forget_factors

    def python_calls() -> int | None:
        return getattr(gt.counters(), "python_calls", None)

    return Adaptor(wraps[variant], gt.evaluate, array, forget_factors, python_calls)


def tensorflow(variant: str, dtype: str) -> Adaptor:
    import tensorflow as tf

    wraps = {
        "plain": plain,
        "function": tf.function,
        "xla": lambda function: tf.function(function, jit_compile=True),
    }
    # On a CPU, calls return when the result is computed; `.numpy()` would add a copy.
    assert tf.config.experimental.get_synchronous_execution()
    return Adaptor(wraps[variant], nothing, lambda leaf: leaf.numpy())


def jax(variant: str, dtype: str) -> Adaptor:
    import jax
    import numpy as np

    # Without this setting JAX turns float64 into float32; float32 stays float32 with it.
    jax.config.update("jax_enable_x64", dtype == "float64")
    return Adaptor(jax.jit, jax.block_until_ready, np.asarray)


def torch(variant: str, dtype: str) -> Adaptor:
    import torch

    wraps = {"plain": plain, "compile": torch.compile}
    return Adaptor(wraps[variant], nothing, lambda leaf: leaf.detach().numpy())


def autograd(variant: str, dtype: str) -> Adaptor:
    import autograd.numpy  # noqa: F401
    import numpy as np

    return Adaptor(plain, nothing, np.asarray)


def numpy(variant: str, dtype: str) -> Adaptor:
    import numpy as np

    return Adaptor(plain, nothing, np.asarray)


ADAPTORS: dict[str, Callable[[str, str], Adaptor]] = {
    function.__name__: function for function in (gradtape, tensorflow, jax, torch, autograd, numpy)
}
