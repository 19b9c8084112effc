"""Error texts for names and arguments that do not exist here: they say what to use instead.

Tables translate the names of NumPy, JAX, PyTorch and TensorFlow; other names are compared with
those that exist. Nothing here runs before a name or an argument is found to be missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from typing import Any, NoReturn

BINARY = "gt.nn.losses.binary_crossentropy(labels, logits, from_logits=True)"
ODE = "gt.ode(f) with scipy.integrate.solve_ivp; steps in gt.scan have a derivative"
# Names of functions and classes, and the name or expression to use here.
FOREIGN = {
    "Activation": "the function itself as a layer, such as gt.relu",
    "AdaptiveAvgPool2d": "gt.nn.GlobalAvgPool",
    "AveragePooling1D": "gt.nn.AvgPool1D",
    "AveragePooling2D": "gt.nn.AvgPool2D",
    "AveragePooling3D": "gt.nn.AvgPool3D",
    "AvgPool1d": "gt.nn.AvgPool1D",
    "AvgPool2d": "gt.nn.AvgPool2D",
    "AvgPool3d": "gt.nn.AvgPool3D",
    "BCELoss": "gt.nn.losses.binary_crossentropy",
    "BCEWithLogitsLoss": BINARY,
    "BatchNorm1d": "gt.nn.BatchNorm",
    "BatchNorm2d": "gt.nn.BatchNorm",
    "BatchNorm3d": "gt.nn.BatchNorm",
    "BatchNormalization": "gt.nn.BatchNorm",
    "Conv": "gt.nn.Conv2D",
    "Conv1d": "gt.nn.Conv1D",
    "Conv2d": "gt.nn.Conv2D",
    "Conv3d": "gt.nn.Conv3D",
    "CosineAnnealingLR": "gt.optimizers.schedules.CosineDecay",
    "CrossEntropyLoss": "gt.nn.cross_entropy(logits, labels)",
    "DataLoader": "gt.fit, which makes batches",
    "DeviceArray": "gt.Tensor",
    "ELU": "gt.nn.elu",
    "ExponentialLR": "gt.optimizers.schedules.ExponentialDecay",
    "GELU": "gt.nn.gelu",
    "GroupNormalization": "gt.nn.GroupNorm",
    "HuberLoss": "gt.nn.losses.huber",
    "Input": "nothing: layers infer their sizes at the first call",
    "KLDivLoss": "gt.nn.losses.kl_divergence",
    "L1Loss": "gt.nn.losses.mean_absolute_error",
    "LayerNormalization": "gt.nn.LayerNorm",
    "LeakyReLU": "gt.nn.leaky_relu",
    "Linear": "gt.nn.Dense(units)",
    "MSELoss": "gt.nn.losses.mean_squared_error",
    "MaxPool1d": "gt.nn.MaxPool1D",
    "MaxPool2d": "gt.nn.MaxPool2D",
    "MaxPool3d": "gt.nn.MaxPool3D",
    "MaxPooling1D": "gt.nn.MaxPool1D",
    "MaxPooling2D": "gt.nn.MaxPool2D",
    "MaxPooling3D": "gt.nn.MaxPool3D",
    "MeanSquaredError": "gt.nn.losses.mean_squared_error",
    "ModuleDict": "a dict: a Module finds the variables of its dicts",
    "ModuleList": "a list: a Module finds the variables of its lists",
    "NLLLoss": "gt.nn.losses.sparse_categorical_crossentropy",
    "PRNGKey": "gt.random.Generator(seed)",
    "Parameter": "gt.Variable",
    "RandomState": "gt.random.Generator(seed)",
    "ReLU": "gt.relu",
    "SiLU": "gt.nn.silu",
    "Sigmoid": "gt.sigmoid",
    "Softmax": "gt.nn.softmax",
    "Softplus": "gt.softplus",
    "StepLR": "gt.optimizers.schedules.PiecewiseConstantDecay",
    "Tanh": "gt.tanh",
    "Tape": "gt.GradientTape",
    "absolute": "gt.abs",
    "adagrad": "gt.optimizers.Adagrad",
    "adam": "gt.optimizers.Adam",
    "adamw": "gt.optimizers.AdamW",
    "addmm": "c + a @ b",
    "allclose": "numpy.allclose(x, y)",
    "amax": "gt.max",
    "amin": "gt.min",
    "append": "gt.concat",
    "apply_updates": "optimizer.apply(gradients, variables)",
    "arccos": "gt.acos",
    "arccosh": "gt.acosh",
    "arcsin": "gt.asin",
    "arcsinh": "gt.asinh",
    "arctan": "gt.atan",
    "arctan2": "gt.atan2",
    "arctanh": "gt.atanh",
    "argwhere": "gt.nonzero",
    "array": "gt.asarray",
    "array_equal": "numpy.array_equal(x, y)",
    "array_split": "gt.split",
    "as_tensor": "gt.asarray",
    "atleast_1d": "gt.reshape",
    "atleast_2d": "gt.reshape",
    "autograd": "gt.grad, gt.GradientTape or gt.custom_gradient",
    "average": "gt.mean",
    "avg_pool1d": "gt.avg_pool",
    "avg_pool2d": "gt.avg_pool",
    "avg_pool3d": "gt.avg_pool",
    "backward": "gt.GradientTape with tape.gradient(loss, variables), or gt.grad",
    "baddbmm": "c + a @ b",
    "batch_norm": "gt.nn.BatchNorm",
    "bfloat16": "gt.float32; half precision is not supported",
    "binary_cross_entropy": "gt.nn.losses.binary_crossentropy",
    "binary_cross_entropy_with_logits": BINARY,
    "block_until_ready": "gt.evaluate",
    "bmm": "gt.matmul",
    "cat": "gt.concat",
    "categorical": "gt.nn.softmax and gt.random.uniform, compared with cumulative sums",
    "checkpointing": "gt.checkpoint",
    "choice": "gt.take(x, gt.random.integers(shape, 0, len(x)))",
    "cholesky_solve": "gt.linalg.triangular_solve, twice",
    "chunk": "gt.split",
    "clamp": "gt.clip",
    "clip_by_global_norm": "an optimizer's global_clipnorm",
    "clip_grad_norm_": "an optimizer's global_clipnorm",
    "column_stack": "gt.stack(columns, axis=1)",
    "compile": "gt.function",
    "complex": "gt.complex128",
    "concatenate": "gt.concat",
    "conjugate": "gt.conj",
    "constant": "gt.asarray",
    "conv1d": "gt.conv, or the layers gt.nn.Conv1D, gt.nn.Conv2D, gt.nn.Conv3D",
    "conv2d": "gt.conv, or the layers gt.nn.Conv1D, gt.nn.Conv2D, gt.nn.Conv3D",
    "conv3d": "gt.conv, or the layers gt.nn.Conv1D, gt.nn.Conv2D, gt.nn.Conv3D",
    "conv_transpose": "gradtape.tf.nn.conv2d_transpose",
    "convert_to_tensor": "gt.asarray",
    "convolve": "gt.conv",
    "cov": "numpy-style products: c = x - gt.mean(x, axis=0); c.T @ c / (len(x) - 1)",
    "crossentropy": "gt.nn.cross_entropy(logits, labels)",
    "cuda": "nothing: the only device is the CPU",
    "cumprod": "gt.cumulative_prod",
    "cumsum": "gt.cumulative_sum",
    "custom_vjp": "gt.custom_gradient",
    "data": "gt.fit for batches of data",
    "default_rng": "gt.random.Generator(seed)",
    "defvjp": "gt.custom_gradient",
    "deg2rad": "x * gt.pi / 180",
    "detach": "gt.stop_gradient",
    "device": "nothing: the only device is the CPU",
    "device_get": "tensor.numpy()",
    "device_put": "gt.asarray",
    "diag_embed": "gt.diag",
    "div": "gt.divide",
    "double": "gt.float64",
    "dstack": "gt.concat",
    "dtype": "x.dtype",
    "eig": "gt.linalg.eigh for symmetric matrices; general ones: numpy.linalg.eig on x.numpy()",
    "eigvals": "gt.linalg.eigvalsh for symmetric matrices",
    "enable_grad": "gt.GradientTape",
    "enable_x64": "gt.set_default_dtype",
    "eq": "gt.equal",
    "expand": "gt.broadcast_to",
    "expit": "gt.sigmoid",
    "fabs": "gt.abs",
    "flatnonzero": "gt.nonzero",
    "flatten": "gt.reshape(x, (-1,))",
    "fliplr": "gt.flip(x, axis=1)",
    "flipud": "gt.flip(x, axis=0)",
    "float": "gt.float32 or gt.float64",
    "float16": "gt.float32; half precision is not supported",
    "float_": "gt.float64",
    "fmod": "gt.remainder",
    "fold_in": "gt.random.Generator(seed)",
    "foreach": "gt.map",
    "from_numpy": "gt.asarray",
    "func": "gt.grad, gt.vjp, gt.jvp, gt.jacobian or gt.vmap",
    "functional": "gt.nn and gt.nn.losses, whose functions need no state",
    "gammaln": "gt.lgamma",
    "gather_nd": "gt.gather",
    "gaussian": "gt.random.normal",
    "ge": "gt.greater_equal",
    "get_default_dtype": "gt.default_dtype",
    "gradient": "gt.grad, or tape.gradient",
    "group_norm": "gt.nn.GroupNorm",
    "gt": "gt.greater",
    "half": "gt.float32; half precision is not supported",
    "heaviside": "gt.where(x > 0, 1.0, 0.0)",
    "hstack": "gt.concat",
    "index_add": "gt.scatter_add",
    "index_select": "gt.take",
    "inference_mode": "gt.stop_gradient, or work outside of any gt.GradientTape",
    "int": "gt.int32 or gt.int64",
    "interp": "gt.searchsorted and a + t * (b - a)",
    "inverse": "gt.linalg.inv",
    "invert": "gt.bitwise_invert",
    "is_tensor": "isinstance with gt.Tensor",
    "isclose": "numpy.isclose(x, y)",
    "jit": "gt.function",
    "keras": "gt.nn, or gradtape.tf.keras",
    "key": "gt.random.Generator(seed)",
    "kl_div": "gt.nn.losses.kl_divergence",
    "l1_loss": "gt.nn.losses.mean_absolute_error",
    "lax": "gt.scan, gt.while_loop, gt.fori_loop or gt.cond",
    "layer_norm": "gt.nn.LayerNorm",
    "layers": "gt.nn",
    "le": "gt.less_equal",
    "left_shift": "gt.bitwise_left_shift",
    "lerp": "a + t * (b - a)",
    "linear": "gt.nn.Dense(units), or x @ w + b",
    "logdet": "gt.linalg.slogdet(x).logabsdet",
    "logsigmoid": "gt.log_sigmoid",
    "long": "gt.int64",
    "lr_scheduler": "gt.optimizers.schedules",
    "lt": "gt.less",
    "mae": "gt.nn.losses.mean_absolute_error",
    "make_jaxpr": "gt.program_of",
    "manual_seed": "gt.random.seed",
    "masked_fill": "gt.where",
    "masked_select": "x[mask]",
    "matvec": "gt.matmul",
    "max_pool1d": "gt.max_pool",
    "max_pool2d": "gt.max_pool",
    "max_pool3d": "gt.max_pool",
    "mm": "gt.matmul",
    "mod": "gt.remainder",
    "movedim": "gt.moveaxis",
    "mse": "gt.nn.losses.mean_squared_error",
    "mse_loss": "gt.nn.losses.mean_squared_error",
    "msort": "gt.sort",
    "mul": "gt.multiply",
    "multi_dot": "gt.matmul",
    "mv": "gt.matmul",
    "nan_to_num": "gt.where(gt.isfinite(x), x, 0.0)",
    "nansum": "gt.sum(gt.where(gt.isnan(x), 0.0, x))",
    "narrow": "x[start:stop]",
    "ndim": "x.ndim",
    "ne": "gt.not_equal",
    "neg": "gt.negative",
    "nll_loss": "gt.nn.losses.sparse_categorical_crossentropy",
    "no_grad": "gt.stop_gradient, or work outside of any gt.GradientTape",
    "numel": "x.size",
    "numpy": "gradtape itself; gt.sin and others follow the array API standard",
    "odeint": ODE,
    "optim": "gt.optimizers",
    "optimizer": "gt.optimizers",
    "percentile": "gt.quantile",
    "permute": "gt.permute_dims",
    "pmap": "gt.distributed",
    "power": "gt.pow",
    "ptp": "gt.max(x) - gt.min(x)",
    "rad2deg": "x * 180 / gt.pi",
    "rand": "gt.random.uniform",
    "rand_like": "gt.random.uniform(x.shape)",
    "randint": "gt.random.integers",
    "randn": "gt.random.normal",
    "randn_like": "gt.random.normal(x.shape)",
    "random_sample": "gt.random.uniform",
    "randperm": "gt.random.permutation(n)",
    "ravel": "gt.reshape(x, (-1,))",
    "recompute_grad": "gt.checkpoint",
    "reduce_max": "gt.max",
    "reduce_mean": "gt.mean",
    "reduce_min": "gt.min",
    "reduce_prod": "gt.prod",
    "reduce_sum": "gt.sum",
    "remat": "gt.checkpoint",
    "repeat_interleave": "gt.repeat",
    "right_shift": "gt.bitwise_right_shift",
    "rint": "gt.round",
    "rmsprop": "gt.optimizers.RMSprop",
    "rollaxis": "gt.moveaxis",
    "rot90": "gt.flip and gt.permute_dims",
    "scatter": "gt.scatter_set",
    "select": "gt.where",
    "set_default_tensor_type": "gt.set_default_dtype",
    "set_printoptions": "numpy.set_printoptions",
    "set_seed": "gt.random.seed",
    "sgd": "gt.optimizers.SGD",
    "shape": "x.shape",
    "shuffle": "gt.random.permutation",
    "size": "x.size",
    "smooth_l1_loss": "gt.nn.losses.huber",
    "softmax_cross_entropy": "gt.nn.losses.softmax_cross_entropy_with_logits",
    "solve_ivp": ODE,
    "solve_triangular": "gt.linalg.triangular_solve",
    "standard_normal": "gt.random.normal",
    "sub": "gt.subtract",
    "swapdims": "gt.swapaxes",
    "t": "gt.matrix_transpose",
    "tensor": "gt.asarray",
    "topk": "gt.top_k",
    "transpose": "gt.permute_dims",
    "tree": "gt.pytree",
    "tree_map": "gt.pytree.map_leaves",
    "tree_util": "gt.pytree",
    "tril_indices": "numpy.tril_indices, whose arrays index tensors",
    "triu_indices": "numpy.triu_indices, whose arrays index tensors",
    "true_divide": "gt.divide",
    "unbind": "gt.unstack",
    "unique": "gt.unique_values",
    "unsqueeze": "gt.expand_dims",
    "utils": "gt.fit for batches of data",
    "value_and_gradient": "gt.value_and_grad",
    "view": "gt.reshape",
    "vstack": "gt.concat",
    "xavier": "gt.nn.initializers.glorot_uniform",
    "xavier_uniform": "gt.nn.initializers.glorot_uniform",
    "xavier_normal": "gt.nn.initializers.glorot_normal",
    "kaiming_uniform": "gt.nn.initializers.he_uniform",
    "kaiming_normal": "gt.nn.initializers.he_normal",
}

# Attributes of tensors and variables, of optimisers, modules and tapes.
_CAST = "x.astype(gt.{}) makes a tensor of another dtype"
_FUNCTIONS = (
    "abs absolute acos all allclose argsort argwhere asin atan atan2 bmm ceil chunk clamp cos "
    "cosh cumprod cumsum diag diagonal diff div erf exp expand expand_dims expm1 flip floor "
    "fmod gather index_select isfinite isinf isnan lgamma log log10 log1p log2 logsumexp "
    "masked_fill matmul maximum median minimum mm movedim moveaxis mul mv narrow neg nonzero "
    "norm outer permute pow quantile reciprocal relu remainder repeat repeat_interleave roll "
    "round rsqrt scatter scatter_add searchsorted sigmoid sign sin sinh softmax log_softmax "
    "sort split sqrt square stack sub swapaxes t take tan tanh tile topk trace tril triu trunc "
    "unbind unique unsqueeze view view_as where add subtract multiply divide"
)
ATTRIBUTES = {
    "Operators": {
        "backward": "Record with `with gt.GradientTape() as tape:` and call "
        "tape.gradient(loss, variables), or use gt.grad",
        "grad": "A tensor holds no gradient: tape.gradient(loss, x) returns it",
        "requires_grad": "Make a gt.Variable, or call tape.watch(x)",
        "requires_grad_": "Make a gt.Variable, or call tape.watch(x)",
        "is_leaf": "Every tensor that a tape watches can be a source",
        "retain_grad": "Intermediate tensors can be sources of tape.gradient",
        "detach": "Use gt.stop_gradient(x)",
        "detach_": "Use x = gt.stop_gradient(x)",
        "data": "Use gt.stop_gradient(x), or x.numpy()",
        "clone": "Use x.copy()",
        "contiguous": "Leave it out: results are contiguous",
        **dict.fromkeys(("cpu", "cuda", "to"), "The only device is the CPU; x.astype converts"),
        "float": _CAST.format("float32"),
        "double": _CAST.format("float64"),
        "half": _CAST.format("float32"),
        "int": _CAST.format("int32"),
        "long": _CAST.format("int64"),
        "bool": _CAST.format("bool"),
        "type": "x.dtype is the dtype, x.astype(dtype) converts",
        "dim": "Use x.ndim",
        "numel": "Use x.size",
        "get_shape": "Use x.shape",
        "block_until_ready": "Use gt.evaluate(x)",
        "eval": "Use gt.evaluate(x), or x.numpy()",
        "at": "Write x[index] = value, or use gt.scatter_set, gt.scatter_add",
        "fill": "Write x[...] = value",
        **dict.fromkeys(("add_", "sub_", "mul_", "div_"), "Write x += y, x -= y, x *= y or x /= y"),
        **dict.fromkeys(("zero_", "fill_", "copy_"), "Write x[...] = value"),
        "read_value": "Use x.value, or the variable itself",
    },
    "Tensor": dict.fromkeys(
        ("assign", "assign_add", "assign_sub", "value"),
        "Only a gt.Variable has it; of a tensor, x[...] = value and x += value change the name x",
    ),
    "Optimizer": {
        "step": "Use optimizer.apply(gradients, variables), or optimizer.minimize(loss, variables)",
        "zero_grad": "Leave it out: every tape.gradient returns new gradients",
        "param_groups": "Use one optimizer for each group, and optimizer.learning_rate",
        "init": "Leave it out: an optimizer makes its slots itself",
        "apply_gradients": "Use optimizer.apply(gradients, variables)",
        "lr": "Use optimizer.learning_rate",
        "state_dict": "gt.save(optimizer, path) saves an optimizer",
        "load_state_dict": "gt.load(path, into=optimizer) loads an optimizer",
    },
    "Module": {
        "zero_grad": "Leave it out: every tape.gradient returns new gradients",
        "state_dict": "gt.save(model, path) saves a model",
        "load_state_dict": "gt.load(path, into=model) loads a model",
        "save": "Use gt.save(model, path)",
        "load_weights": "Use gt.load(path, into=model)",
        "save_weights": "Use gt.save(model, path)",
        "fit": "Use gt.fit(step, data)",
        "compile": "Decorate the training step with gt.function",
        "predict": "Call the model: model(x)",
        "forward": "Call the model: model(x); a subclass defines __call__",
        "apply": "Call the model: model(x)",
        "init": "Leave it out: a model makes its variables at the first call",
        **dict.fromkeys(("train", "eval"), "Pass training=True or training=False to the call"),
        **dict.fromkeys(("to", "cuda", "cpu"), "Leave it out: the only device is the CPU"),
        **dict.fromkeys(
            ("weights", "trainable_variables", "trainable_weights", "variables"),
            "Use model.parameters()",
        ),
        "named_modules": "Use model.named_parameters()",
        "children": "The attributes of a module are its children",
    },
    "GradientTape": {
        "backward": "Use tape.gradient(loss, variables)",
        "grad": "Use tape.gradient(loss, variables)",
        "gradients": "Use tape.gradient(loss, variables)",
        "value_and_grad": "Use gt.value_and_grad(f), which needs no tape",
        "jacobians": "Use tape.jacobian(target, sources)",
    },
}

# What is meant by two tensors for a function of one tensor and an axis.
OF_TWO = {
    "max": "gt.maximum(a, b)",
    "min": "gt.minimum(a, b)",
    "sum": "gt.add(a, b)",
    "prod": "gt.multiply(a, b)",
    "any": "gt.logical_or(a, b)",
    "all": "gt.logical_and(a, b)",
}

# Arguments: the names that they have here, of which a function takes one, or what to do instead.
ARGUMENTS: dict[str, tuple[str, ...] | str] = {
    "dim": ("axis", "axes"),
    "dims": ("axes", "axis", "shape"),
    "axis": ("axes",),
    "axes": ("axis",),
    "dim0": ("axis1",),
    "dim1": ("axis2",),
    "keepdim": ("keepdims",),
    "keep_dims": ("keepdims",),
    "size": ("shape",),
    "newshape": ("shape",),
    "sizes": ("shape",),
    "ddof": ("correction",),
    "unbiased": "Pass correction=1 for the unbiased estimate, correction=0 otherwise.",
    "a_min": ("min",),
    "a_max": ("max",),
    "lr": ("learning_rate",),
    "step_size": ("learning_rate",),
    "betas": "Pass beta_1=... and beta_2=....",
    "b1": ("beta_1",),
    "b2": ("beta_2",),
    "beta1": ("beta_1",),
    "beta2": ("beta_2",),
    "eps": ("epsilon",),
    "alpha": ("rho", "negative_slope"),
    "decay": ("weight_decay", "rho"),
    "parameters": "Pass the variables to optimizer.apply or optimizer.minimize.",
    "params": "Pass the variables to optimizer.apply or optimizer.minimize.",
    "mean": ("loc",),
    "stddev": ("scale",),
    "std": ("scale",),
    "minval": ("low",),
    "maxval": ("high",),
    "key": ("seed",),
    "rng": ("seed",),
    "generator": ("seed",),
    "lam": ("scale",),
    "in_features": "The number of inputs is inferred at the first call.",
    "in_channels": "The number of inputs is inferred at the first call.",
    "out_channels": ("filters",),
    "stride": ("strides",),
    "dilation": ("dilation_rate",),
    "num_features": "The number of features is inferred at the first call.",
    "num_groups": ("groups",),
    "weight": 'Multiply the losses of reduction="none" by weights.',
    "out_features": ("units",),
    "features": ("units",),
    "hidden_size": ("units", "cell"),
    "input_size": "The number of inputs is inferred at the first call.",
    "input_shape": "The shape of the input is inferred at the first call.",
    "bias": ("use_bias",),
    "num_embeddings": ("input_dim",),
    "embedding_dim": ("output_dim",),
    "normalized_shape": ("axis",),
    "p": ("rate", "ord"),
    "inplace": "Results are new tensors; leave it out.",
    "requires_grad": "Tapes watch a gt.Variable by themselves, other tensors by tape.watch(x).",
    "require_grad": "Tapes watch a gt.Variable by themselves, other tensors by tape.watch(x).",
    "value": ("constant_values", "fill_value"),
    "end": ("stop",),
    "depth": ("num_classes",),
    "tolerance": ("tol", "rtol"),
    "decimals": "Multiply by a power of ten, round and divide.",
    "out": "Results are new tensors; write x[...] = result to keep it in x.",
    "where": "Select with gt.where(mask, x, 0.0) first.",
    "initial": "Combine the result with the initial value.",
    "order": "The order is always that of C.",
    "dtype": "Convert with x.astype(dtype).",
    "device": "The only device is the CPU; leave it out.",
    "copy": "Use x.copy().",
    "n": ("num", "length"),
    "steps": ("num",),
    "M": ("n_cols",),
    "indices_or_sections": "Pass the sections by position.",
    "split_size_or_sections": "Pass the sections by position.",
    "largest": "Use gt.top_k(-x, k) for the smallest.",
    "rcond": ("rtol",),
    "tol": ("rtol",),
    "UPLO": "Both triangles are read.",
    "UPPER": ("upper",),
    "kind": ("stable",),
    "reps": "Pass the repetitions by position.",
    "input": "Pass the tensor by position.",
    "tensors": "Pass the tensors by position.",
    "a": "Pass the tensor by position.",
    "retain_graph": ("persistent",),
    "create_graph": "Ask for the gradient inside an outer tape to differentiate it.",
    "grad_outputs": ("output_gradients",),
    "allow_unused": 'Pass unconnected_gradients="zero" or "none".',
    "static_argnums": ("static_argnames",),
    "jit_compile": "Leave it out: functions are compiled when that pays.",
    "input_signature": "Leave it out: signatures are inferred.",
    "verbose": ("progress",),
    "validation_data": ("validation",),
    "callbacks": ("early_stopping",),
    "fun": "Pass the function by position.",
    "from_logit": ("from_logits",),
    "target": "Pass y_true first and y_pred second.",
    "label": "Pass y_true first and y_pred second.",
    "labels": ("y_true",),
    "logits": ("y_pred",),
    "predictions": ("y_pred",),
}

# Public namespaces that are searched for a name that `gradtape` itself does not have.
NAMESPACES = ("linalg", "fft", "random", "nn", "optimizers", "testing", "errors")
_PARTS = (*NAMESPACES, "nn.losses", "nn.activations", "nn.initializers", "optimizers.schedules")


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


def missing_name(
    name: str, public: Iterable[str], path: str = "gradtape", like: str | None = None
) -> str:
    """The text of the AttributeError for a name that `gradtape`, or a part of it, does not have."""
    sentence = f"module {path!r} has no attribute {name!r}."
    if name.startswith("_"):
        return sentence
    part = path.removeprefix("gradtape").lstrip(".")
    library = sys.modules["gradtape"]
    if part and name in library.__all__ and name not in NAMESPACES:
        return f"{sentence} Use gt.{name}."
    if name in FOREIGN:
        return f"{sentence} Use {FOREIGN[name]}."
    # `gradtape.ops` and its like are imported by the library only. An import statement reads
    # the attribute before it checks sys.modules, so this branch must stay cheap.
    if f"{path}.{name}" in sys.modules:
        return (
            f"{sentence} It is an internal package; gradtape itself exports its public functions."
        )
    short = f"gt.{part}." if part else "gt."
    found = [short + each for each in nearest(name, public)]
    for each in reversed(_PARTS):
        if each != part and name in import_module(f"gradtape.{each}").__all__:
            found.insert(0, f"gt.{each}.{name}")
    if found:
        return f"{sentence} Did you mean {' or '.join(found[:2])}?"
    return f"{sentence} dir({path}) lists the public names."


def namespace(module: dict[str, Any]) -> tuple[Callable[[str], NoReturn], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a public module: hints for missing names, public names.

    >>> find, listed = gt.libraries.namespace(vars(gt.linalg))
    >>> "norm" in listed()
    True
    """
    path = module["__name__"]

    def find(name: str) -> NoReturn:
        raise AttributeError(
            missing_name(name, module["__all__"], path), name=name, obj=sys.modules[path]
        )

    def listed() -> list[str]:
        return sorted({*module["__all__"], *(name for name in module if name.startswith("__"))})

    return find, listed


class _Missing:
    """An attribute that a class does not have; the error says what to use instead.

    Unlike a `__getattr__` of the class it costs nothing when an attribute exists. Without a remedy
    it has the name of a function.
    """

    def __init__(self, name: str, remedy: str) -> None:
        self.name = name
        self.remedy = remedy

    def __get__(self, found: object, kind: type) -> NoReturn:
        is_public = self.name in sys.modules["gradtape"].__all__
        function = f"gt.{self.name}(x)" if is_public else FOREIGN.get(self.name)
        raise AttributeError(
            f"{kind.__name__!r} object has no attribute {self.name!r}. "
            f"{self.remedy or f'Use {function}'}.",
            name=self.name,
            obj=kind if found is None else found,
        )


def explain_attributes(cls: type) -> None:
    """Let a class of a name in `ATTRIBUTES` explain attributes that other libraries have.

    >>> gt.libraries.explain_attributes(gt.GradientTape)
    >>> try:
    ...     gt.GradientTape().backward()
    ... except AttributeError as error:
    ...     print(str(error).partition(". ")[2])
    Use tape.gradient(loss, variables).
    """
    table = ATTRIBUTES[cls.__name__]
    if cls.__name__ == "Operators":
        table = {**dict.fromkeys(_FUNCTIONS.split(), ""), **table}
    for name, remedy in table.items():
        if not hasattr(cls, name):
            setattr(cls, name, _Missing(name, remedy))
    if cls.__dir__ is object.__dir__:
        setattr(cls, "__dir__", without_internals(""))  # noqa: B010


def without_internals(internal: str) -> Callable[[object], list[str]]:
    """The `__dir__` of a class that leaves out internal and missing attributes."""

    hidden = internal.split()

    def listed(self: object) -> list[str]:
        kind = type(self)
        return [
            name
            for name in object.__dir__(self)
            if name not in hidden
            and not any(isinstance(vars(each).get(name), _Missing) for each in kind.__mro__)
        ]

    return listed


def unexpected_arguments(more: tuple[object, ...], unknown: Mapping[str, object]) -> TypeError:
    """The error of the function that calls this, for arguments that it does not take."""
    code = sys._getframe(1).f_code
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    title = code.co_qualname.removesuffix(".__init__")
    return refused_call(title, names, count, count + len(more), unknown)


def refused_call(
    title: str, names: Collection[str], places: int, given: int, unknown: Iterable[str]
) -> TypeError:
    """The error for too many arguments by position, of which there are `places`, or unknown names.

    >>> from gradtape.suggestions import refused_call
    >>> print(refused_call("sum", ["x", "axis", "keepdims"], 2, 1, ["dim"]))
    sum: there is no argument 'dim'; here it is called axis.
    """
    names = [name for name in names if name != "self"]
    for name in unknown:
        sentence = f"{title}: there is no argument {name!r}"
        known = ARGUMENTS.get(name, ())
        if isinstance(known, str):
            return TypeError(f"{sentence}. {known}")
        here = [each for each in known if each in names]
        if here:
            return TypeError(f"{sentence}; here it is called {here[0]}.")
        if near := nearest(name, names):
            return TypeError(f"{sentence}. Did you mean {near[0]}?")
        return TypeError(f"{sentence}. It takes {', '.join(names) or 'no arguments'}.")
    by_name = names[places:]
    remedy = f"Pass {', '.join(by_name)} by name" if by_name else "Leave out the others"
    return TypeError(
        f"{title}: {given} arguments by position, and it takes at most {places}: "
        f"{', '.join(names[:places])}. {remedy}."
    )
