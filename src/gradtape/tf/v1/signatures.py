"""Signatures of TensorFlow 1: other names and another order of arguments than TensorFlow 2 has.

`SIGNATURES` has a row for each function whose arguments differ. A row lists the arguments in
TensorFlow 1's order: `axis` is called so in TensorFlow 2 as well, `keep_dims=keepdims` is an older
name, and `-data` is accepted and has no effect.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gradtape.libraries import checked

_ROWS = """
arg_max arg_min: input dimension=axis output_type name
argmax argmin: input axis name dimension=axis output_type
assert_all_finite: t=x msg=message name x message
assert_equal assert_greater assert_greater_equal assert_less assert_less_equal assert_none_equal: \
    x y -data summarize message name
assert_near: x y rtol atol -data summarize message name
assert_negative assert_non_negative assert_non_positive assert_positive: \
    x -data summarize message name
assert_rank assert_rank_at_least: x rank -data -summarize message name
assert_rank_in: x ranks -data -summarize message name
assert_scalar: tensor name message
avg_pool avg_pool2d max_pool: value=input ksize strides padding data_format name input
batch_to_space: input crops block_size=block_shape name block_shape
boolean_mask: tensor mask name axis
cond: pred true_fn false_fn strict name fn1=true_fn fn2=false_fn
confusion_matrix: labels predictions num_classes dtype name weights
constant: value dtype shape name -verify_shape
conv1d: value=input filters stride padding -use_cudnn_on_gpu data_format name input dilations
conv2d: input filter=filters strides padding -use_cudnn_on_gpu data_format dilations name filters
conv2d_transpose conv3d_transpose: value=input filter=filters output_shape strides padding \
    data_format name input filters dilations
conv3d: input filter=filters strides padding data_format dilations name filters
convert_to_tensor: value dtype name preferred_dtype dtype_hint
convolution: input filter=filters padding strides dilation_rate=dilations name data_format \
    filters dilations
count_nonzero: input_tensor=input axis keepdims dtype name reduction_indices=axis \
    keep_dims=keepdims input
crelu: features name axis
depth_to_space space_to_depth: input block_size name data_format
depthwise_conv2d: input filter strides padding rate=dilations name data_format dilations
device: device_name_or_function=device_name
embedding_lookup: params ids partition_strategy name -validate_indices max_norm
expand_dims: input axis name dim=axis
gather: params indices validate_indices name axis batch_dims
gather_nd: params indices name batch_dims bad_indices_policy
gradients: ys xs grad_ys name -colocate_gradients_with_ops gate_gradients aggregation_method \
    stop_gradients unconnected_gradients
hessians: ys xs name -colocate_gradients_with_ops gate_gradients aggregation_method
in_top_k: predictions targets k name
log_softmax softmax: logits axis name dim=axis
moments: x axes shift name keep_dims=keepdims keepdims
multinomial: logits num_samples seed name output_dtype=dtype
norm: tensor ord axis keepdims name keep_dims=keepdims
ones_like zeros_like: tensor=input dtype name -optimize
pad: tensor paddings mode name constant_values
pool: input window_shape pooling_type padding dilation_rate=dilations strides name data_format \
    dilations
random_poisson poisson: lam shape dtype seed name
reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_sum: \
    input_tensor axis keepdims name reduction_indices=axis keep_dims=keepdims
reverse_sequence: input seq_lengths seq_axis batch_axis name seq_dim=seq_axis batch_dim=batch_axis
separable_conv2d: input depthwise_filter pointwise_filter strides padding rate=dilations name \
    data_format dilations
shape size: input name out_type
softmax_cross_entropy_with_logits: labels logits dim=axis name axis
softmax_cross_entropy_with_logits_v2: labels logits axis name dim=axis
space_to_batch: input paddings block_size=block_shape name block_shape
squeeze: input axis name squeeze_dims=axis
sufficient_statistics: x axes shift keep_dims=keepdims name keepdims
transpose: a perm name conjugate
tuple: tensors name control_inputs
weighted_cross_entropy_with_logits: labels logits pos_weight name targets=labels
weighted_moments: x axes frequency_weights name keep_dims=keepdims keepdims
while_loop: cond body loop_vars shape_invariants parallel_iterations back_prop swap_memory name \
    maximum_iterations return_same_structure
"""


def _parsed(rows: str) -> dict[str, dict[str, str | None]]:
    """For each function, its arguments in order and the name of each in TensorFlow 2, or None."""
    result = {}
    for row in rows.strip().splitlines():
        functions, _, words = row.partition(":")
        pairs = [word.partition("=") for word in words.split()]
        named = {old.lstrip("-"): None if old[0] == "-" else new or old for old, _, new in pairs}
        result.update(dict.fromkeys(functions.split(), named))
    return result


SIGNATURES = _parsed(_ROWS)


def with_old_arguments(function: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """The function with the arguments that TensorFlow 1 gives it; itself if they do not differ."""
    name = name or function.__name__
    names = SIGNATURES.get(name)
    if names is None:
        return function
    order = list(names)
    # The function itself checks arguments under their new names.
    function = function if hasattr(function, "argument_checks") else checked(function, name)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(order):
            raise TypeError(f"{name}: {len(args)} arguments; there are {len(order)}: {order}.")
        passed = dict(zip(order, args, strict=False))
        for key, value in kwargs.items():
            if key not in names:
                raise TypeError(f"{name}: there is no argument {key!r}. Use one of {order}.")
            if key in passed:
                raise TypeError(f"{name}: argument {key!r} is passed twice.")
            passed[key] = value
        new: dict[str, Any] = {}
        for key, value in passed.items():
            target = names[key]
            # None says that a name is not used; the others may still name the same argument.
            if target is None or (value is None and list(names.values()).count(target) > 1):
                continue
            if target in new:
                raise ValueError(f"{name}: {key!r} and another name for it are both passed.")
            new[target] = value
        return function(**new)

    known = inspect.signature(function).parameters
    parameters = [_optional(old, known.get(new or "")) for old, new in names.items()]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _optional(name: str, new: inspect.Parameter | None) -> inspect.Parameter:
    """An old parameter with the annotation of the new one; any of them can be left out."""
    found = inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
    if new is None or not isinstance(new.annotation, str):
        return found
    text = new.annotation if "None" in new.annotation else f"{new.annotation} | None"
    return found.replace(annotation=text)


class OldNamespace(ModuleType):
    """A namespace such as `tf.math` in which functions have the arguments of TensorFlow 1."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__all__ = module.__all__
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        return with_old_arguments(found, name) if name in self.__all__ else found
