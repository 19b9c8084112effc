"""Parameter kinds: which values a parameter can never mean, by its annotation and its name.

The rules here are made from names, such as `patience` and `epsilon`, and not from the library's own
annotations of ranges: a parameter that the library forgot to check is found by its name.
"""

from __future__ import annotations

import re

from tests.contract.bad_input.bad_values import SILENT
from tests.contract.bad_input.legal_values import LEGAL, MADE_BY_US, Row

# Functions for tests compare anything.
TESTING = (
    "gradtape.extend.check",
    "gradtape.testing.",
    "gradtape.tf.programs.testing.",
    "gradtape.tf.programs.assertions.",
)
# These read the shape and the dtype of their operand only, so a mask is not lost.
OF_SHAPE_ONLY = {"empty_like", "full_like", "ones_like", "size", "type_spec_from_value",
                 "zeros_like", "shape", "rank", "result_type"}  # fmt: skip
# Annotations of whole numbers, and the library's names for those of a range.
_WHOLE = {"int", "SupportsIndex", "IntLike", "Count", "Size", "CountLike", "SizeLike", "Seed"}
_REAL = {"float", "Finite", "Probability", "NonNegative", "Positive", "Decay", "Bound"}
NUMBERS = ("rate", "finite", "not negative", "positive", "probability")
_UNSAID = {"", "Any", "object"}
_FLAGS = {"keepdims", "persistent", "training", "include_initial", "descending", "use_bias",
          "return_sequences", "return_state", "go_backwards", "stateful", "unroll", "from_logits",
          "unit_forget_bias", "reset_after", "back_prop", "strict", "ragged"}  # fmt: skip
# Whole numbers that may be negative.
_SIGNED = {"offset", "k", "shift", "seed", "start", "stop", "low", "high", "lower", "upper",
           "value", "repeats", "num_lower", "num_upper", "diagonal", "verbose", "order",
           "batch_dims", "index", "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask",
           "shrink_axis_mask", "class_id", "ignore_class"}  # fmt: skip
# Whole numbers of which none makes no sense, and parameters that take one or one for each axis.
_SIZES = {"units", "filters", "block_size", "groups", "depth_multiplier", "input_dim", "output_dim",
          "steps_per_execution", "chunk_size", "n_rows", "workers", "threads",
          "steps_per_epoch", "validation_steps", "validation_batch_size", "batch_size",
          "ema_overwrite_frequency", "gradient_accumulation_steps", "every", "top_k", "shards",
          "bucket", "block", "num_thresholds", "num_partitions"}  # fmt: skip
_PER_AXIS = {"kernel_size", "pool_size", "strides", "dilation_rate", "dilations", "ksize", "stride",
             "window_shape", "size"}  # fmt: skip
_PROBABILITIES = {"rate", "keep_prob", "dropout", "recurrent_dropout", "label_smoothing", "rho",
                  "momentum", "beta_1", "beta_2", "beta1", "beta2", "ema_momentum",
                  "validation_split", "decay"}  # fmt: skip
_NOT_NEGATIVE = {"epsilon", "eps", "rtol", "atol", "tol", "clipnorm", "clipvalue", "min_delta",
                 "global_clipnorm", "weight_decay", "initial_accumulator_value", "stddev", "l1",
                 "l2", "timeout", "max_norm", "variance_epsilon", "decay_rate", "warmup_steps",
                 "l1_regularization_strength", "l2_regularization_strength", "min_lr",
                 "l2_shrinkage_regularization_strength", "l2_regularizer", "max_value",
                 "keep_checkpoint_every_n_hours", "factor", "m_mul", "work_seconds",
                 "exchange_seconds"}  # fmt: skip
_POSITIVE = {"decay_steps", "first_decay_steps", "loss_scale_factor", "delta", "t_mul"}

# Numbers of either sign with which an infinite one makes no sense, if an object keeps it.
_FINITE = {"initial_learning_rate", "end_learning_rate", "warmup_target", "learning_rate_power",
           "power", "alpha", "scale", "offset", "beta", "gain", "negative_slope"}  # fmt: skip


def kind_of(name: str, annotation: str, callee: str) -> str:
    """The kind of values that a parameter takes: a key of `SILENT`."""
    text = annotation.replace("typing.", "").replace("collections.abc.", "")
    text = re.sub(r"\s*\|\s*None|None\s*\|\s*|Optional\[(.*)\]", r"\1", text).strip("'\" ")
    if callee.startswith(("operator.", *TESTING, *MADE_BY_US)):
        return "anything"
    if text == "bool" or (name in _FLAGS and (text in _UNSAID or name == "keepdims")):
        return "anything" if name == "training" and text in _UNSAID else "flag"
    if name in _PER_AXIS and text in _UNSAID | {"PerAxis", "Sizes"}:
        return "sizes"
    if name in ("axis", "axes", "dim") and text in {
        "int",
        "SupportsIndex",
        "Axis",
        "IntLike",
        "Any",
    }:
        return "axis"
    if text in _WHOLE or (text in _UNSAID and name in _SIZES | {"k", "seed"}):
        return _kind_of_whole(name)
    if text == "ShapeLike":
        # As in NumPy, a shift may be negative.
        return "anything" if name == "shift" else "shape"
    if text in _REAL or (text in _UNSAID and name in _PROBABILITIES):
        return _kind_of_real(name)
    if text in ("TensorLike", "Tensor"):
        return "tensor"
    if text == "DTypeLike":
        return "dtype"
    if text.startswith("Callable") and "|" not in text:
        return "function"
    return "anything"


def _kind_of_whole(name: str) -> str:
    if name in _SIGNED:
        return "integer"
    if "axis" in name and name != "axis_size":
        return "axis"
    return "size" if name in _SIZES else "count"


def _kind_of_real(name: str) -> str:
    if name in _PROBABILITIES:
        return "probability"
    if name in _NOT_NEGATIVE:
        return "not negative"
    if name in _POSITIVE:
        return "positive"
    return "finite" if name in _FINITE else "rate"


def is_silent(callee: str, name: str, kind: str, value: str) -> bool:
    """Whether acceptance of a value is silent: the parameter can never mean it."""
    short = callee.rpartition(".")[2]
    constructs = short[:1].isupper()
    if value in ("NaN", "infinity") and kind in NUMBERS and not constructs:
        return False  # a number to compute with; an object must not keep it
    if value == "99" and constructs:
        return False  # a layer knows its axes when it sees its input
    if value == "masked array" and short in OF_SHAPE_ONLY:
        return False
    return value in SILENT[kind] and excuse(callee, name, value) is None


def excuse(callee: str, name: str, value: str) -> Row | None:
    """The row that says why a value is legal that parameters of its kind do not take otherwise."""
    for row in LEGAL:
        callees, parameter, values, _ = row
        if re.search(callees, callee) and name == parameter and value in values:
            return row
    return None
