"""Legal values: what a parameter takes though others of its name or kind do not, with the reason.

Each row has a pattern for the names of callables, the parameter, the values by their names in
`bad_values.VALUES`, and the reason. `test_sweep` fails if a row excuses nothing any more.
"""

from __future__ import annotations

NEGATIVE = ("-1", "-3", "-1.5", "np.int8")
# A pattern, a parameter, values, and the reason.
Row = tuple[str, str, tuple[str, ...], str]
LEGAL: tuple[Row, ...] = (
    (r"pattern$|\.prepare_", "argnums", ("-1",), "as an index: the last argument"),
    (r"\.concat$", "values", ("ragged list",), "vectors of several lengths, end to end"),
    (r"embedding_lookup", "params", ("ragged list",), "parts of a table, as in TensorFlow"),
    (r"Dataset\.range", "args", NEGATIVE, "bounds and a step, as in Python"),
    (r"Dataset\.(take|repeat)", "count", NEGATIVE, "all, or without end, as in TensorFlow"),
    (r"Dataset\.skip", "count", NEGATIVE, "all are skipped, as in TensorFlow"),
    (r"Dataset\.prefetch", "buffer_size", ("-1",), "TensorFlow's AUTOTUNE"),
    (r"PyDataset", "workers", ("0",), "no worker besides the main thread, as in Keras"),
    (r"get_initial_state", "batch_size", ("0",), "a batch without examples, as in NumPy"),
    (r"\.eye$", "n_rows", ("0",), "a matrix without rows, as in NumPy"),
    (r"strided_slice", "begin", ("-3",), "counted from the end, as in TensorFlow"),
    (r"strided_slice", "end", ("-3",), "counted from the end, as in TensorFlow"),
    (r"strided_slice", "strides", ("-3",), "backwards, as in TensorFlow"),
    (r"random_numbers\.fold_in", "data", NEGATIVE, "any integer gives a seed, as in TensorFlow"),
    (r"control\.while_loop", "maximum_iterations", NEGATIVE, "no iteration, as in TensorFlow"),
    (r"matrix_power", "n", NEGATIVE, "a power of the inverse, as in NumPy"),
    (r"diagonals\.diag$", "num_rows", ("-1",), "TensorFlow's default: as many as are needed"),
    (r"diagonals\.diag$", "num_cols", ("-1",), "TensorFlow's default: as many as are needed"),
    (r"callbacks\.", "min_delta", NEGATIVE, "Keras takes its absolute value"),
    (r"optimizers\.", "clipnorm", ("infinity",), "a bound that bounds nothing"),
    (r"optimizers\.", "clipvalue", ("infinity",), "a bound that bounds nothing"),
    (r"optimizers\.", "global_clipnorm", ("infinity",), "a bound that bounds nothing"),
)
# Classes whose instances the library makes, and users read.
MADE_BY_US = ("gradtape.distributed.report.Report",)
