"""Names and order of arguments are TensorFlow's (2.21), `name` included."""

import inspect

import pytest

import gradtape.tf as tf

# A line for each function: its name, and the names of its arguments.
SIGNATURES = {
    "": """
Assert: condition data summarize name
abs: x name
acos: x name
acosh: x name
add: x y name
add_n: inputs name
argmax: input axis output_type name
argmin: input axis output_type name
argsort: values axis direction stable name
asin: x name
asinh: x name
assert_equal: x y message summarize name
assert_greater: x y message summarize name
assert_less: x y message summarize name
assert_rank: x rank message name
atan: x name
atan2: y x name
atanh: x name
batch_to_space: input block_shape crops name
bitcast: input type name
boolean_mask: tensor mask axis name
broadcast_dynamic_shape: shape_x shape_y
broadcast_static_shape: shape_x shape_y
broadcast_to: input shape name
case: pred_fn_pairs default exclusive strict name
cast: x dtype name
clip_by_global_norm: t_list clip_norm use_norm name
clip_by_norm: t clip_norm axes name
clip_by_value: t clip_value_min clip_value_max name
complex: real imag name
concat: values axis name
cond: pred true_fn false_fn name
constant: value dtype shape name
control_dependencies: control_inputs
cos: x name
cosh: x name
cumsum: x axis exclusive reverse name
custom_gradient: f
divide: x y name
dynamic_partition: data partitions num_partitions name
dynamic_stitch: indices data name
eig: tensor name
eigvals: tensor name
einsum: equation inputs kwargs
ensure_shape: x shape name
equal: x y name
exp: x name
expand_dims: input axis name
eye: num_rows num_columns batch_shape dtype name
fill: dims value name layout
floor: x name
foldl: fn elems initializer parallel_iterations back_prop swap_memory name
foldr: fn elems initializer parallel_iterations back_prop swap_memory name
function: func input_signature autograph jit_compile reduce_retracing experimental_implements
  experimental_autograph_options experimental_attributes experimental_relax_shapes
  experimental_compile experimental_follow_type_hints
gather: params indices validate_indices axis batch_dims name
gather_nd: params indices batch_dims name bad_indices_policy
get_static_value: tensor partial
grad_pass_through: f
gradients: ys xs grad_ys name gate_gradients aggregation_method stop_gradients unconnected_gradients
greater: x y name
greater_equal: x y name
group: inputs kwargs
hessians: ys xs gate_gradients aggregation_method name
histogram_fixed_width: values value_range nbins dtype name
histogram_fixed_width_bins: values value_range nbins dtype name
identity: input name
identity_n: input name
is_symbolic_tensor: tensor
is_tensor: x
less: x y name
less_equal: x y name
linspace: start stop num name axis
logical_and: x y name
logical_not: x name
logical_or: x y name
map_fn: fn elems dtype parallel_iterations back_prop swap_memory infer_shape name
  fn_output_signature
matmul: a b transpose_a transpose_b adjoint_a adjoint_b a_is_sparse b_is_sparse output_type
  grad_a grad_b name
matrix_square_root: input name
maximum: x y name
minimum: x y name
multiply: x y name
negative: x name
no_gradient: op_type
no_op: name
norm: tensor ord axis keepdims name
not_equal: x y name
numpy_function: func inp Tout stateful name
one_hot: indices depth on_value off_value axis dtype name
ones: shape dtype name layout
ones_like: input dtype name layout
pad: tensor paddings mode constant_values name
pow: x y name
py_function: func inp Tout name
range: start limit delta dtype name
rank: input name
recompute_grad: f
reduce_all: input_tensor axis keepdims name
reduce_any: input_tensor axis keepdims name
reduce_logsumexp: input_tensor axis keepdims name
reduce_max: input_tensor axis keepdims name
reduce_mean: input_tensor axis keepdims name
reduce_min: input_tensor axis keepdims name
reduce_prod: input_tensor axis keepdims name
reduce_sum: input_tensor axis keepdims name
repeat: input repeats axis name
reshape: tensor shape name
reverse: tensor axis name
reverse_sequence: input seq_lengths seq_axis batch_axis name
roll: input shift axis name
round: x name
saturate_cast: value dtype name
scalar_mul: scalar x name
scan: fn elems initializer parallel_iterations back_prop swap_memory infer_shape reverse name
scatter_nd: indices updates shape bad_indices_policy name
searchsorted: sorted_sequence values side out_type name
sequence_mask: lengths maxlen dtype name
shape: input out_type name
shape_n: input out_type name
sigmoid: x name
sign: x name
sin: x name
sinh: x name
size: input out_type name
slice: input_ begin size name
sort: values axis direction name
space_to_batch: input block_shape paddings name
space_to_batch_nd: input block_shape paddings name
split: value num_or_size_splits axis num name
sqrt: x name
square: x name
squeeze: input axis name
stack: values axis name
stop_gradient: input name
strided_slice: input_ begin end strides begin_mask end_mask ellipsis_mask new_axis_mask
  shrink_axis_mask var name
subtract: x y name
switch_case: branch_index branch_fns default name
tan: x name
tanh: x name
tensor_scatter_nd_add: tensor indices updates bad_indices_policy name
tensor_scatter_nd_max: tensor indices updates bad_indices_policy name
tensor_scatter_nd_min: tensor indices updates bad_indices_policy name
tensor_scatter_nd_sub: tensor indices updates bad_indices_policy name
tensor_scatter_nd_update: tensor indices updates name
tensordot: a b axes name
tile: input multiples name
transpose: a perm conjugate name
truediv: x y name
truncatediv: x y name
truncatemod: x y name
tuple: tensors control_inputs name
type_spec_from_value: value
unique: x out_idx name
unique_with_counts: x out_idx name
unravel_index: indices dims name
unstack: value num axis name
vectorized_map: fn elems fallback_to_while_loop warn
where: condition x y name
while_loop: cond body loop_vars shape_invariants parallel_iterations back_prop swap_memory
  maximum_iterations name
zeros: shape dtype name layout
zeros_like: input dtype name layout
    """,
    "math": """
accumulate_n: inputs shape tensor_dtype name
angle: input name
bessel_i0: x name
bessel_i0e: x name
bessel_i1: x name
bessel_i1e: x name
betainc: a b x name
bincount: arr weights minlength maxlength dtype name axis binary_output
ceil: x name
confusion_matrix: labels predictions num_classes weights dtype name
conj: x name
count_nonzero: input axis keepdims dtype name
cumprod: x axis exclusive reverse name
cumulative_logsumexp: x axis exclusive reverse name
digamma: x name
divide_no_nan: x y name
erf: x name
erfc: x name
erfcinv: x name
erfinv: x name
expm1: x name
floordiv: x y name
floormod: x y name
igamma: a x name
igammac: a x name
imag: input name
in_top_k: targets predictions k name
invert_permutation: x name
is_finite: x name
is_inf: x name
is_nan: x name
is_non_decreasing: x name
is_strictly_increasing: x name
l2_normalize: x axis epsilon name dim
lbeta: x name
lgamma: x name
log: x name
log1p: x name
log_sigmoid: x name
log_softmax: logits axis name
logical_xor: x y name
mod: x y name
multiply_no_nan: x y name
ndtri: x name
nextafter: x1 x2 name
polygamma: a x name
polyval: coeffs x name
real: input name
reciprocal: x name
reciprocal_no_nan: x name
reduce_euclidean_norm: input_tensor axis keepdims name
reduce_std: input_tensor axis keepdims name
reduce_variance: input_tensor axis keepdims name
rint: x name
rsqrt: x name
segment_max: data segment_ids name
segment_mean: data segment_ids name
segment_min: data segment_ids name
segment_prod: data segment_ids name
segment_sum: data segment_ids name
softmax: logits axis name
softplus: features name
softsign: features name
squared_difference: x y name
top_k: input k sorted index_type name
unsorted_segment_max: data segment_ids num_segments name
unsorted_segment_mean: data segment_ids num_segments name
unsorted_segment_min: data segment_ids num_segments name
unsorted_segment_prod: data segment_ids num_segments name
unsorted_segment_sqrt_n: data segment_ids num_segments name
unsorted_segment_sum: data segment_ids num_segments name
xdivy: x y name
xlog1py: x y name
xlogy: x y name
zero_fraction: value name
zeta: x q name
    """,
    "nn": """
atrous_conv2d: value filters rate padding name
avg_pool: input ksize strides padding data_format name
avg_pool1d: input ksize strides padding data_format name
avg_pool2d: input ksize strides padding data_format name
avg_pool3d: input ksize strides padding data_format name
batch_normalization: x mean variance offset scale variance_epsilon name
bias_add: value bias data_format name
compute_average_loss: per_example_loss sample_weight global_batch_size
conv1d: input filters stride padding data_format dilations name
conv1d_transpose: input filters output_shape strides padding data_format dilations name
conv2d: input filters strides padding data_format dilations name
conv2d_transpose: input filters output_shape strides padding data_format dilations name
conv3d: input filters strides padding data_format dilations name
conv3d_transpose: input filters output_shape strides padding data_format dilations name
conv_transpose: input filters output_shape strides padding data_format dilations name
convolution: input filters strides padding data_format dilations name
crelu: features axis name
depth_to_space: input block_size data_format name
depthwise_conv2d: input filter strides padding data_format dilations name
dropout: x rate noise_shape seed name
elu: features name
embedding_lookup: params ids max_norm name
gelu: features approximate name
l2_loss: t name
leaky_relu: features alpha name
local_response_normalization: input depth_radius bias alpha beta name
log_poisson_loss: targets log_input compute_full_loss name
lrn: input depth_radius bias alpha beta name
max_pool: input ksize strides padding data_format name
max_pool1d: input ksize strides padding data_format name
max_pool2d: input ksize strides padding data_format name
max_pool3d: input ksize strides padding data_format name
moments: x axes shift keepdims name
normalize_moments: counts mean_ss variance_ss shift name
pool: input window_shape pooling_type strides padding data_format dilations name
relu: features name
relu6: features name
scale_regularization_loss: regularization_loss
selu: features name
separable_conv2d: input depthwise_filter pointwise_filter strides padding data_format dilations name
sigmoid_cross_entropy_with_logits: labels logits name
silu: features beta
softmax_cross_entropy_with_logits: labels logits axis name
space_to_depth: input block_size data_format name
sparse_softmax_cross_entropy_with_logits: labels logits name
sufficient_statistics: x axes shift keepdims name
swish: features beta
weighted_cross_entropy_with_logits: labels logits pos_weight name
weighted_moments: x axes frequency_weights keepdims name
    """,
    "linalg": """
adjoint: matrix name
band_part: input num_lower num_upper name
cholesky: input name
cholesky_solve: chol rhs name
cross: a b name
det: input name
diag: diagonal name k num_rows num_cols padding_value align
diag_part: input name k padding_value align
eigh: tensor name
eigvalsh: tensor name
expm: input name
global_norm: t_list name
inv: input adjoint name
logdet: matrix name
logm: input name
lstsq: matrix rhs l2_regularizer fast name
lu: input output_idx_type name
lu_matrix_inverse: lower_upper perm validate_args name
lu_reconstruct: lower_upper perm validate_args name
lu_solve: lower_upper perm rhs validate_args name
matrix_rank: a tol validate_args name
matrix_transpose: a name conjugate
matvec: a b transpose_a adjoint_a a_is_sparse b_is_sparse name
normalize: tensor ord axis name
pinv: a rcond validate_args name
qr: input full_matrices name
set_diag: input diagonal name k align
slogdet: input name
solve: matrix rhs adjoint name
sqrtm: input name
svd: tensor full_matrices compute_uv name
tensor_diag: diagonal name
tensor_diag_part: input name
trace: x name
triangular_solve: matrix rhs lower adjoint name
    """,
    "random": """
categorical: logits num_samples dtype seed name
fold_in: seed data alg
gamma: shape alpha beta dtype seed name
normal: shape mean stddev dtype seed name
poisson: shape lam dtype seed name
set_global_generator: generator
set_seed: seed
shuffle: value seed name
split: seed num alg
stateless_binomial: shape seed counts probs output_dtype name
stateless_categorical: logits num_samples seed dtype name
stateless_gamma: shape seed alpha beta dtype name
stateless_normal: shape seed mean stddev dtype name alg
stateless_poisson: shape seed lam dtype name
stateless_truncated_normal: shape seed mean stddev dtype name alg
stateless_uniform: shape seed minval maxval dtype name alg
truncated_normal: shape mean stddev dtype seed name
uniform: shape minval maxval dtype seed name
    """,
}


def listed():
    for module, text in SIGNATURES.items():
        for line in text.strip().replace("\n  ", " ").splitlines():
            name, _, arguments = line.partition(":")
            yield pytest.param(module, name, arguments.split(), id=f"{module}.{name}".strip("."))


@pytest.mark.parametrize(("module", "name", "expected"), list(listed()))
def test_arguments(module, name, expected):
    function = getattr(getattr(tf, module) if module else tf, name)
    assert list(inspect.signature(function).parameters) == expected


@pytest.mark.parametrize(
    ("function", "defaults"),
    [
        (tf.function, {"input_signature": None, "autograph": True, "jit_compile": None}),
        (tf.GradientTape, {"persistent": False, "watch_accessed_variables": True}),
        (tf.zeros, {"dtype": tf.float32}),
        (tf.eye, {"num_columns": None, "batch_shape": None, "dtype": tf.float32}),
        (tf.reduce_sum, {"axis": None, "keepdims": False}),
        (tf.argmax, {"axis": None, "output_type": tf.int64}),
        (tf.matmul, {"transpose_a": False, "adjoint_b": False}),
        (tf.norm, {"ord": "euclidean", "axis": None, "keepdims": None}),
        (tf.gather, {"axis": None, "batch_dims": 0}),
        (tf.one_hot, {"on_value": None, "axis": None, "dtype": None}),
        (tf.pad, {"mode": "CONSTANT", "constant_values": 0}),
        (tf.cumsum, {"axis": 0, "exclusive": False, "reverse": False}),
        (tf.sort, {"axis": -1, "direction": "ASCENDING"}),
        (tf.random.normal, {"mean": 0.0, "stddev": 1.0, "dtype": tf.float32, "seed": None}),
        (tf.nn.leaky_relu, {"alpha": 0.2}),
        (tf.nn.max_pool2d, {"data_format": "NHWC"}),
        (tf.linalg.diag, {"k": 0, "num_rows": -1, "align": "RIGHT_LEFT"}),
        (tf.linalg.svd, {"full_matrices": False, "compute_uv": True}),
        (tf.while_loop, {"shape_invariants": None, "maximum_iterations": None}),
    ],
)
def test_defaults(function, defaults):
    parameters = inspect.signature(function).parameters
    assert {name: parameters[name].default for name in defaults} == defaults
