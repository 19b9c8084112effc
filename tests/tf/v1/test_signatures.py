"""Functions of `tf.compat.v1` have TensorFlow 1's arguments: names, order, and what they do."""

import inspect
import operator

import numpy as np
import pytest

import gradtape.tf as tf
from gradtape.tf.v1.signatures import SIGNATURES

v1 = tf.compat.v1

# The arguments of TensorFlow 1.15, for each function that has others in TensorFlow 2.
ARGUMENTS = """
arg_max: input dimension output_type name
arg_min: input dimension output_type name
argmax: input axis name dimension output_type
argmin: input axis name dimension output_type
assert_equal: x y data summarize message name
assert_greater: x y data summarize message name
assert_less: x y data summarize message name
assert_rank: x rank data summarize message name
batch_to_space: input crops block_size name block_shape
boolean_mask: tensor mask name axis
cond: pred true_fn false_fn strict name fn1 fn2
confusion_matrix: labels predictions num_classes dtype name weights
constant: value dtype shape name verify_shape
convert_to_tensor: value dtype name preferred_dtype dtype_hint
count_nonzero: input_tensor axis keepdims dtype name reduction_indices keep_dims input
debugging.assert_all_finite: t msg name x message
debugging.assert_greater_equal: x y data summarize message name
debugging.assert_less_equal: x y data summarize message name
debugging.assert_near: x y rtol atol data summarize message name
debugging.assert_negative: x data summarize message name
debugging.assert_non_negative: x data summarize message name
debugging.assert_non_positive: x data summarize message name
debugging.assert_none_equal: x y data summarize message name
debugging.assert_positive: x data summarize message name
debugging.assert_rank_at_least: x rank data summarize message name
debugging.assert_rank_in: x ranks data summarize message name
debugging.assert_scalar: tensor name message
depth_to_space: input block_size name data_format
device: device_name_or_function
expand_dims: input axis name dim
gather: params indices validate_indices name axis batch_dims
gather_nd: params indices name batch_dims bad_indices_policy
gradients: ys xs grad_ys name colocate_gradients_with_ops gate_gradients aggregation_method stop_gradients unconnected_gradients
hessians: ys xs name colocate_gradients_with_ops gate_gradients aggregation_method
linalg.norm: tensor ord axis keepdims name keep_dims
math.argmax: input axis name dimension output_type
math.count_nonzero: input_tensor axis keepdims dtype name reduction_indices keep_dims input
math.in_top_k: predictions targets k name
math.log_softmax: logits axis name dim
math.reduce_logsumexp: input_tensor axis keepdims name reduction_indices keep_dims
math.softmax: logits axis name dim
multinomial: logits num_samples seed name output_dtype
nn.avg_pool: value ksize strides padding data_format name input
nn.avg_pool2d: value ksize strides padding data_format name input
nn.conv1d: value filters stride padding use_cudnn_on_gpu data_format name input dilations
nn.conv2d: input filter strides padding use_cudnn_on_gpu data_format dilations name filters
nn.conv2d_transpose: value filter output_shape strides padding data_format name input filters dilations
nn.conv3d: input filter strides padding data_format dilations name filters
nn.conv3d_transpose: value filter output_shape strides padding data_format name input filters dilations
nn.convolution: input filter padding strides dilation_rate name data_format filters dilations
nn.crelu: features name axis
nn.depth_to_space: input block_size name data_format
nn.depthwise_conv2d: input filter strides padding rate name data_format dilations
nn.embedding_lookup: params ids partition_strategy name validate_indices max_norm
nn.in_top_k: predictions targets k name
nn.log_softmax: logits axis name dim
nn.max_pool: value ksize strides padding data_format name input
nn.moments: x axes shift name keep_dims keepdims
nn.pool: input window_shape pooling_type padding dilation_rate strides name data_format dilations
nn.separable_conv2d: input depthwise_filter pointwise_filter strides padding rate name data_format dilations
nn.softmax: logits axis name dim
nn.softmax_cross_entropy_with_logits: labels logits dim name axis
nn.softmax_cross_entropy_with_logits_v2: labels logits axis name dim
nn.space_to_depth: input block_size name data_format
nn.sufficient_statistics: x axes shift keep_dims name keepdims
nn.weighted_cross_entropy_with_logits: labels logits pos_weight name targets
nn.weighted_moments: x axes frequency_weights name keep_dims keepdims
norm: tensor ord axis keepdims name keep_dims
ones_like: tensor dtype name optimize
pad: tensor paddings mode name constant_values
random.poisson: lam shape dtype seed name
random_poisson: lam shape dtype seed name
reduce_all: input_tensor axis keepdims name reduction_indices keep_dims
reduce_any: input_tensor axis keepdims name reduction_indices keep_dims
reduce_logsumexp: input_tensor axis keepdims name reduction_indices keep_dims
reduce_max: input_tensor axis keepdims name reduction_indices keep_dims
reduce_mean: input_tensor axis keepdims name reduction_indices keep_dims
reduce_min: input_tensor axis keepdims name reduction_indices keep_dims
reduce_prod: input_tensor axis keepdims name reduction_indices keep_dims
reduce_sum: input_tensor axis keepdims name reduction_indices keep_dims
reverse_sequence: input seq_lengths seq_axis batch_axis name seq_dim batch_dim
shape: input name out_type
size: input name out_type
space_to_batch: input paddings block_size name block_shape
space_to_depth: input block_size name data_format
squeeze: input axis name squeeze_dims
transpose: a perm name conjugate
tuple: tensors name control_inputs
while_loop: cond body loop_vars shape_invariants parallel_iterations back_prop swap_memory name maximum_iterations return_same_structure
zeros_like: tensor dtype name optimize
"""  # noqa: E501 - a line for each function
ROWS = dict(row.split(": ") for row in ARGUMENTS.strip().splitlines())


@pytest.mark.parametrize("path", ROWS)
def test_arguments_have_the_names_and_order_of_tensorflow_1(path):
    function = operator.attrgetter(path)(v1)
    assert list(inspect.signature(function).parameters) == ROWS[path].split()


def test_every_row_of_the_table_is_tested():
    assert set(SIGNATURES) == {path.rpartition(".")[2] for path in ROWS}


@pytest.mark.parametrize("path", ROWS)
def test_old_names_stand_for_arguments_that_exist(path):
    function = operator.attrgetter(path)(v1)
    new = inspect.signature(function.__wrapped__).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in new.values())
    for name in SIGNATURES[path.rpartition(".")[2]].values():
        assert name is None or name in new or takes_any


IMAGE = np.arange(64, dtype=np.float32).reshape(2, 4, 4, 2)
FILTER = np.ones((2, 2, 2, 3), np.float32)
NO_PAD = [[0, 0], [0, 0]]
SAME_CALLS = {
    "keep_dims": (lambda: v1.reduce_max(IMAGE, reduction_indices=[1], keep_dims=True),
                  lambda: tf.reduce_max(IMAGE, [1], True)),
    "filter": (lambda: v1.nn.conv2d(IMAGE, filter=FILTER, strides=[1] * 4, padding="VALID"),
               lambda: tf.nn.conv2d(IMAGE, FILTER, 1, "VALID")),
    "use_cudnn_on_gpu": (lambda: v1.nn.conv2d(IMAGE, FILTER, [1] * 4, "VALID", True, "NHWC"),
                         lambda: tf.nn.conv2d(IMAGE, FILTER, 1, "VALID")),
    "dilation_rate": (lambda: v1.nn.convolution(IMAGE, FILTER, "VALID", [1, 1], [2, 2]),
                      lambda: tf.nn.convolution(IMAGE, FILTER, 1, "VALID", None, 2)),
    "pool": (lambda: v1.nn.pool(IMAGE, [2, 2], "MAX", "VALID", [1, 1], [2, 2]),
             lambda: tf.nn.pool(IMAGE, [2, 2], "MAX", [2, 2], "VALID")),
    "value": (lambda: v1.nn.avg_pool(value=IMAGE, ksize=2, strides=2, padding="SAME"),
              lambda: tf.nn.avg_pool(IMAGE, 2, 2, "SAME")),
    "rate": (lambda: v1.nn.depthwise_conv2d(IMAGE, FILTER, [1] * 4, "VALID", [2, 2]),
             lambda: tf.nn.depthwise_conv2d(IMAGE, FILTER, [1] * 4, "VALID", None, [2, 2])),
    "targets": (lambda: v1.nn.weighted_cross_entropy_with_logits(
                    targets=[1.0], logits=[2.0], pos_weight=3.0),
                lambda: tf.nn.weighted_cross_entropy_with_logits([1.0], [2.0], 3.0)),
    "block_size": (lambda: v1.space_to_batch(IMAGE, NO_PAD, 2),
                   lambda: tf.space_to_batch(IMAGE, [2, 2], NO_PAD)),
    "crops": (lambda: v1.batch_to_space(IMAGE[[0, 1, 0, 1]], NO_PAD, block_size=2),
              lambda: tf.batch_to_space(IMAGE[[0, 1, 0, 1]], [2, 2], NO_PAD)),
    "in_top_k": (lambda: v1.nn.in_top_k([[0.1, 0.9], [0.8, 0.2]], [1, 1], 1),
                 lambda: tf.nn.in_top_k([1, 1], [[0.1, 0.9], [0.8, 0.2]], 1)),
    "name before dimension": (lambda: v1.argmax(IMAGE, None, "name", 1),
                              lambda: tf.argmax(IMAGE, 1)),
    "input_tensor": (lambda: v1.count_nonzero(input_tensor=IMAGE, keep_dims=True),
                     lambda: tf.math.count_nonzero(IMAGE, keepdims=True)),
    "moments": (lambda: v1.nn.moments(IMAGE, [0], keep_dims=True)[1],
                lambda: tf.nn.moments(IMAGE, [0], keepdims=True)[1]),
    "gather": (lambda: v1.gather(IMAGE, [1], None, "name", 1),
               lambda: tf.gather(IMAGE, [1], axis=1)),
    "pad": (lambda: v1.pad([1.0], [[1, 1]], "CONSTANT", "name", 7),
            lambda: tf.constant([7.0, 1.0, 7.0])),
    "weights": (lambda: v1.confusion_matrix([0, 1], [1, 1], 2, tf.float32, "name", [0.5, 2.0]),
                lambda: tf.constant([[0.0, 0.5], [0.0, 2.0]])),
    "preferred_dtype": (lambda: v1.convert_to_tensor([1, 2], None, "name", tf.float32),
                        lambda: tf.constant([1.0, 2.0])),
    "partitions": (lambda: v1.nn.embedding_lookup([[[1.0], [2.0]], [[3.0]]], [0, 1, 2]),
                   lambda: tf.constant([[1.0], [3.0], [2.0]])),
    "div": (lambda: v1.nn.embedding_lookup([[[1.0], [2.0]], [[3.0]]], [0, 1, 2], "div"),
            lambda: tf.constant([[1.0], [2.0], [3.0]])),
    "dim": (lambda: v1.math.softmax([[1.0, 2.0]], dim=0), lambda: tf.nn.softmax([[1.0, 2.0]], 0)),
    "fn1": (lambda: v1.cond(True, fn1=lambda: [tf.constant(1)], fn2=lambda: [tf.constant(2)]),
            lambda: tf.constant(1)),
    "strict": (lambda: v1.cond(False, lambda: [1], lambda: [tf.constant(2)], strict=True)[0],
               lambda: tf.constant(2)),
    "while_loop": (lambda: v1.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)]),
                   lambda: tf.constant(3)),
    "return_same_structure": (
        lambda: v1.while_loop(
            lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], return_same_structure=True)[0],
        lambda: tf.constant(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME_CALLS)
def test_calls_with_old_arguments(name):
    old, new = (call() for call in SAME_CALLS[name])
    assert old.dtype == new.dtype
    np.testing.assert_array_equal(old.numpy(), new.numpy())


def test_wrong_calls_are_refused():
    with pytest.raises(ValueError, match="both passed"):
        v1.reduce_sum([1], axis=0, reduction_indices=0)
    with pytest.raises(TypeError, match="no argument 'axes'"):
        v1.reduce_sum([1], axes=0)
    with pytest.raises(TypeError, match="passed twice"):
        v1.reduce_sum([1], input_tensor=[2])
    with pytest.raises(TypeError, match="there are 6"):
        v1.reduce_sum(*range(7))
    with pytest.raises(ValueError, match="neither"):
        v1.nn.embedding_lookup([[1.0]], [0], "some")


def test_where_chooses_rows_and_broadcasts_nothing():
    x, y = tf.constant([[1, 2], [3, 4]]), tf.constant([[5, 6], [7, 8]])
    assert v1.where([True, False], x, y).numpy().tolist() == [[1, 2], [7, 8]]
    assert v1.where(False, x, y).numpy().tolist() == y.numpy().tolist()
    assert v1.where(x > 2, x, y).numpy().tolist() == [[5, 6], [3, 4]]
    assert v1.where([True, False, True], tf.ones([3, 2]), tf.zeros([3, 2])).shape == [3, 2]
    assert v1.where([1, 0, 2]).numpy().tolist() == [[0], [2]]
    for condition, other in (([[True, False]], y), ([True, False, True], y), (True, 5)):
        with pytest.raises(ValueError, match="where"):
            v1.where(condition, x, other)


def test_labels_of_the_older_cross_entropy_have_no_derivative():
    labels, logits = tf.constant([[0.3, 0.7]]), tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch([labels, logits])
        loss = v1.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    by_labels, by_logits = tape.gradient(loss, [labels, logits])
    assert by_labels is None
    np.testing.assert_allclose(by_logits.numpy(), [[-0.03105858, 0.03105858]], rtol=1e-5)


def test_namespaces_that_mean_something_else_are_not_there():
    for name in ("losses", "metrics", "optimizers"):
        with pytest.raises(AttributeError, match=name):
            getattr(v1, name)
