"""Error texts for names that a namespace does not have: they name the nearest one that exists.

`gradtape` and `gradtape.tf` both raise with these texts, and only then are names compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module

# Names of NumPy, JAX, PyTorch and TensorFlow, and the name or expression to use here.
FOREIGN = {
    "DeviceArray": "gt.Tensor",
    "Parameter": "gt.Variable",
    "Tape": "gt.GradientTape",
    "absolute": "gt.abs",
    "amax": "gt.max",
    "amin": "gt.min",
    "arccos": "gt.acos",
    "arccosh": "gt.acosh",
    "arcsin": "gt.asin",
    "arcsinh": "gt.asinh",
    "arctan": "gt.atan",
    "arctan2": "gt.atan2",
    "arctanh": "gt.atanh",
    "array": "gt.asarray",
    "as_tensor": "gt.asarray",
    "backward": "gt.GradientTape with tape.gradient(loss, variables), or gt.grad",
    "bmm": "gt.matmul",
    "cat": "gt.concat",
    "clamp": "gt.clip",
    "compile": "gt.function",
    "concatenate": "gt.concat",
    "constant": "gt.asarray",
    "convert_to_tensor": "gt.asarray",
    "cumprod": "gt.cumulative_prod",
    "cumsum": "gt.cumulative_sum",
    "detach": "gt.stop_gradient",
    "device_get": "tensor.numpy()",
    "device_put": "gt.asarray",
    "div": "gt.divide",
    "enable_grad": "gt.GradientTape",
    "expit": "gt.sigmoid",
    "float16": "gt.float32; half precision is not supported",
    "bfloat16": "gt.float32; half precision is not supported",
    "float_": "gt.float64",
    "from_numpy": "gt.asarray",
    "gammaln": "gt.lgamma",
    "hstack": "gt.concat",
    "index_select": "gt.take",
    "invert": "gt.bitwise_invert",
    "jit": "gt.function",
    "lax": "gt.scan, gt.while_loop, gt.fori_loop or gt.cond",
    "left_shift": "gt.bitwise_left_shift",
    "make_jaxpr": "gt.program_of",
    "manual_seed": "gt.random.seed",
    "mm": "gt.matmul",
    "mod": "gt.remainder",
    "mul": "gt.multiply",
    "neg": "gt.negative",
    "no_grad": "gt.stop_gradient, or work outside of any gt.GradientTape",
    "inference_mode": "gt.stop_gradient, or work outside of any gt.GradientTape",
    "numpy": "gradtape itself; gt.sin and others follow the array API standard",
    "permute": "gt.permute_dims",
    "power": "gt.pow",
    "rand": "gt.random.uniform",
    "randint": "gt.random.integers",
    "randn": "gt.random.normal",
    "ravel": "gt.reshape(x, (-1,))",
    "reduce_max": "gt.max",
    "reduce_mean": "gt.mean",
    "reduce_min": "gt.min",
    "reduce_prod": "gt.prod",
    "reduce_sum": "gt.sum",
    "remat": "gt.checkpoint",
    "right_shift": "gt.bitwise_right_shift",
    "rint": "gt.round",
    "select": "gt.where",
    "set_default_tensor_type": "gt.set_default_dtype",
    "solve": "gt.linalg.solve",
    "sub": "gt.subtract",
    "tensor": "gt.asarray",
    "transpose": "gt.permute_dims",
    "tree": "gt.pytree",
    "tree_map": "gt.pytree.map_leaves",
    "tree_util": "gt.pytree",
    "true_divide": "gt.divide",
    "unsqueeze": "gt.expand_dims",
    "vstack": "gt.concat",
}

# Public namespaces in which a name is looked for when `gradtape` itself does not have it.
NAMESPACES = ("linalg", "fft", "random", "nn", "optimizers", "testing", "errors")


def nearest(name: str, public: Iterable[str]) -> list[str]:
    """Public names that a misspelt or shortened name may stand for, the likeliest first.

    >>> from gradtape.suggestions import nearest
    >>> nearest("sinn", ["cos", "sin", "sinh"])
    ['sin', 'sinh']
    """
    # Loaded here because it is needed only when a name is wrong, and slows every import else.
    import difflib

    names = list(public)
    almost_equal = difflib.get_close_matches(name, names, 2, 0.8)
    having_the_word = [each for each in names if name in each.split("_")]
    similar = difflib.get_close_matches(name, names, 2, 0.6)
    return list(dict.fromkeys([*almost_equal, *having_the_word, *similar]))


def missing_name(name: str, public: Iterable[str]) -> str:
    """The text of the AttributeError for a name that `gradtape` does not have."""
    sentence = f"module 'gradtape' has no attribute {name!r}."
    if name.startswith("_"):
        return sentence
    if name in FOREIGN:
        return f"{sentence} Use {FOREIGN[name]}."
    # `gradtape.ops` and its like are imported by the library only. An import statement asks for
    # the attribute before it looks in sys.modules, so this branch must stay cheap.
    if f"gradtape.{name}" in sys.modules:
        return (
            f"{sentence} It is an internal package; gradtape itself exports its public functions."
        )
    found = [f"gt.{each}" for each in nearest(name, public)]
    for part in NAMESPACES:
        if name in import_module(f"gradtape.{part}").__all__:
            found.insert(0, f"gt.{part}.{name}")
    if found:
        return f"{sentence} Did you mean {' or '.join(found[:2])}?"
    return f"{sentence} dir(gradtape) lists the public names."
