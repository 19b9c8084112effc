"""Calls as NumPy, JAX, PyTorch and TensorFlow take them: they work, or an error says what to write.

`SAME` has calls that give what NumPy gives; `REFUSED` has mistakes, the type of the error and its
words.
"""

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

import gradtape as gt

A = np.arange(6.0).reshape(2, 3) - 2.5
X = gt.asarray(A)
SQUARE = np.array([[2.0, 1.0], [1.0, 3.0]])
S = gt.asarray(SQUARE)

SAME = {
    "sum(x, 1)": lambda: (gt.sum(X, 1), np.sum(A, 1)),
    "sum(x, axis, dtype)": lambda: (gt.sum(X, 1, np.float32), np.sum(A, 1, np.float32)),
    "prod": lambda: (gt.prod(X, 0), np.prod(A, 0)),
    "mean": lambda: (gt.mean(X, 0), np.mean(A, 0)),
    "mean keepdim, torch": lambda: (gt.mean(X, 0, True), np.mean(A, 0, keepdims=True)),
    "var": lambda: (gt.var(X, 1), np.var(A, 1)),
    "std": lambda: (gt.std(X, (0, 1)), np.std(A, (0, 1))),
    "max": lambda: (gt.max(X, 1), np.max(A, 1)),
    "min": lambda: (gt.min(X, -1), np.min(A, -1)),
    "any": lambda: (gt.any(X > 0, 0), np.any(A > 0, 0)),
    "all": lambda: (gt.all(X > 0, 1), np.all(A > 0, 1)),
    "argmax": lambda: (gt.argmax(X, 1), np.argmax(A, 1)),
    "argmin": lambda: (gt.argmin(X, 0), np.argmin(A, 0)),
    "count_nonzero": lambda: (gt.count_nonzero(X, 1), np.count_nonzero(A, 1)),
    "median": lambda: (gt.median(X, 0), np.median(A, 0)),
    "quantile": lambda: (gt.quantile(X, 0.3, 1), np.quantile(A, 0.3, 1)),
    "cumulative_sum": lambda: (gt.cumulative_sum(X, 1), np.cumsum(A, 1)),
    "cumulative_prod": lambda: (gt.cumulative_prod(X, 0), np.cumprod(A, 0)),
    "concat": lambda: (gt.concat([X, X], 1), np.concatenate([A, A], 1)),
    "stack": lambda: (gt.stack([X, X], 1), np.stack([A, A], 1)),
    "split": lambda: (gt.split(X, 3, 1)[1], np.split(A, 3, 1)[1]),
    "unstack": lambda: (gt.unstack(X, 1)[2], A[:, 2]),
    "roll": lambda: (gt.roll(X, 1, 0), np.roll(A, 1, 0)),
    "flip": lambda: (gt.flip(X, 1), np.flip(A, 1)),
    "repeat": lambda: (gt.repeat(X, 2, 0), np.repeat(A, 2, 0)),
    "take": lambda: (gt.take(X, [2, 0], 1), np.take(A, [2, 0], 1)),
    "take_along_axis": lambda: (
        gt.take_along_axis(X, [[0], [1]], 1),
        np.take_along_axis(A, np.array([[0], [1]]), 1),
    ),
    "sort": lambda: (gt.sort(X, 0), np.sort(A, 0)),
    "argsort": lambda: (gt.argsort(X, 1), np.argsort(A, 1)),
    "searchsorted": lambda: (
        gt.searchsorted([1.0, 2.0], [2.0], "right"),
        np.searchsorted([1.0, 2.0], [2.0], "right"),
    ),
    "diff": lambda: (gt.diff(X, 2), np.diff(A, 2)),
    "diff axis": lambda: (gt.diff(X, 1, 0), np.diff(A, 1, 0)),
    "expand_dims": lambda: (gt.expand_dims(X, 1), np.expand_dims(A, 1)),
    "squeeze": lambda: (gt.squeeze(X[:1], 0), np.squeeze(A[:1], 0)),
    "reshape": lambda: (gt.reshape(X, 3, 2), A.reshape(3, 2)),
    "reshape -1": lambda: (gt.reshape(X, -1), A.reshape(-1)),
    "permute_dims": lambda: (gt.permute_dims(X, 1, 0), A.T),
    "broadcast_to": lambda: (gt.broadcast_to(X[0], 2, 3), np.broadcast_to(A[0], (2, 3))),
    "zeros(2, 3)": lambda: (gt.zeros(2, 3), np.zeros((2, 3))),
    "ones(2, 3)": lambda: (gt.ones(2, 3), np.ones((2, 3))),
    "empty(2, 3)": lambda: (gt.empty(2, 3).shape, (2, 3)),
    "zeros(shape, dtype)": lambda: (gt.zeros((2, 3), np.int32), np.zeros((2, 3), np.int32)),
    "ones(n, dtype)": lambda: (gt.ones(2, gt.int64), np.ones(2, np.int64)),
    "full": lambda: (gt.full((2,), 3.0, np.float32), np.full((2,), 3.0, np.float32)),
    "zeros_like": lambda: (gt.zeros_like(X, np.int32), np.zeros_like(A, np.int32)),
    "full_like": lambda: (gt.full_like(X, 2, np.int32), np.full_like(A, 2, np.int32)),
    "eye": lambda: (gt.eye(2, 3, 1), np.eye(2, 3, 1)),
    "arange": lambda: (gt.arange(0, 3, 1, np.float32), np.arange(0, 3, 1, np.float32)),
    "asarray": lambda: (gt.asarray([1, 2], np.float32), np.asarray([1, 2], np.float32)),
    "tril": lambda: (gt.tril(X, 1), np.tril(A, 1)),
    "diag": lambda: (gt.diag(S, 1), np.diag(SQUARE, 1)),
    "diagonal": lambda: (gt.diagonal(S, 1), np.diagonal(SQUARE, 1)),
    "tensordot": lambda: (gt.tensordot(S, X, 1), np.tensordot(SQUARE, A, 1)),
    "svd": lambda: (gt.linalg.svd(S, False).S, np.linalg.svd(SQUARE, False).S),
    "qr": lambda: (gt.linalg.qr(S, "reduced").R, np.linalg.qr(SQUARE, "reduced").R),
    "pinv": lambda: (gt.linalg.pinv(S, 1e-9), np.linalg.pinv(SQUARE, 1e-9)),
    "trace": lambda: (gt.linalg.trace(S, 1), np.trace(SQUARE, 1)),
    "fft": lambda: (gt.fft.fft(X, 2, 1), np.fft.fft(A, 2, 1)),
    "rfft": lambda: (gt.fft.rfft(X, 4, 0, "ortho"), np.fft.rfft(A, 4, 0, "ortho")),
    "fftfreq": lambda: (gt.fft.fftfreq(4, 0.5), np.fft.fftfreq(4, 0.5)),
    "fftshift": lambda: (gt.fft.fftshift(X, 1), np.fft.fftshift(A, 1)),
    "x.sum(1)": lambda: (X.sum(1), A.sum(1)),
    "x.mean(0, keepdims)": lambda: (X.mean(0, keepdims=True), A.mean(0, keepdims=True)),
    "x.squeeze(0)": lambda: (X[:1].squeeze(0), A[:1].squeeze(0)),
    "x.clip(0)": lambda: (X.clip(0.0), A.clip(0.0)),
}


@pytest.mark.parametrize("name", SAME)
def test_positions_are_those_of_numpy(name):
    found, expected = SAME[name]()
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-12)


def test_positions_under_a_tape():
    x = gt.Variable(A)
    with gt.GradientTape() as tape:
        y = gt.sum(gt.roll(gt.sum(x * x, 0), 1, 0) * gt.arange(3.0))
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 2 * A * [1.0, 2.0, 0.0])


W = gt.Variable([1.0, 2.0])
MODEL = gt.nn.Sequential([gt.nn.Dense(2)])
ADAM = gt.optimizers.Adam()

REFUSED = [
    # Arguments.
    ("gt.sum(X, dim=1)", TypeError, "'dim'.*called axis"),
    ("gt.sum(X, 1, True)", TypeError, "keepdims=True by name"),
    ("gt.sum(X, keepdim=True)", TypeError, "called keepdims"),
    ("gt.sum(X, 0, None, False, 1)", TypeError, "at most 4"),
    ("gt.sum(X, where=A > 0)", TypeError, r"gt\.where"),
    ("gt.sum(X, out=A)", TypeError, "new tensors"),
    ("gt.mean(X, axes=0)", TypeError, "called axis"),
    ("gt.var(X, ddof=1)", TypeError, "called correction"),
    ("gt.max(X, dim=0)", TypeError, "called axis"),
    ("gt.max(X, X)", TypeError, r"gt\.maximum\(a, b\)"),
    ("gt.max(2.0, 3.0)", TypeError, r"gt\.maximum\(a, b\)"),
    ("gt.max(2, 3)", IndexError, r"gt\.maximum\(a, b\)"),
    ("gt.min(X, X)", TypeError, r"gt\.minimum\(a, b\)"),
    ("gt.any(X, X)", TypeError, r"gt\.logical_or"),
    ("gt.concat([X], dim=0)", TypeError, "called axis"),
    ("gt.stack([X], dim=0)", TypeError, "called axis"),
    ("gt.sort(X, -1, True)", TypeError, "descending, stable by name"),
    ("gt.squeeze(X, dim=0)", TypeError, "called axis"),
    ("gt.norm(X, p=2)", TypeError, "called ord"),
    ("gt.clip(X, a_min=0.0)", TypeError, "called min"),
    ("gt.nn.softmax(X, dim=-1)", TypeError, "called axis"),
    ("gt.linspace(0.0, 1.0, steps=3)", TypeError, "called num"),
    ("gt.random.normal(size=(2,))", TypeError, "called shape"),
    ("gt.random.normal(2, 3)", TypeError, r"as a tuple, \(2, 3\)"),
    ("gt.random.normal(0.0, 1.0, (3,))", TypeError, "loc, scale.* by name"),
    ("gt.random.uniform(minval=0.0)", TypeError, "called low"),
    ("gt.random.normal(key=0)", TypeError, "called seed"),
    ("gt.tile(X, 2, 2)", TypeError, "as a tuple"),
    ("gt.where(X > 0)", TypeError, r"gt\.nonzero"),
    ("gt.asarray(1.0, requires_grad=True)", TypeError, r"tape\.watch"),
    ("gt.Variable(1.0, requires_grad=True)", TypeError, r"gt\.Variable"),
    ("gt.zeros((2,), requires_grad=True)", TypeError, r"gt\.Variable"),
    ("gt.GradientTape(persistant=True)", TypeError, "Did you mean persistent"),
    ("gt.grad(lambda x: x, argnum=0)", TypeError, "Did you mean argnums"),
    ("gt.function(jit_compile=True)", TypeError, "Leave it out"),
    ("gt.nn.Dense(2, bias=False)", TypeError, "called use_bias"),
    ("gt.nn.Dense(in_features=2, out_features=3)", TypeError, "called units"),
    ("gt.nn.Dropout(p=0.5)", TypeError, "called rate"),
    ("gt.nn.Embedding(num_embeddings=3, embedding_dim=2)", TypeError, "called input_dim"),
    ("gt.optimizers.Adam(lr=0.1)", TypeError, "called learning_rate"),
    ("gt.optimizers.Adam(betas=(0.9, 0.99))", TypeError, "beta_1"),
    ("gt.optimizers.Adam(eps=1e-8)", TypeError, "called epsilon"),
    ("gt.optimizers.SGD(lr=0.1)", TypeError, "called learning_rate"),
    ("gt.optimizers.SGD([W])", TypeError, r"optimizer\.apply"),
    ("gt.optimizers.SGD(MODEL)", TypeError, r"optimizer\.apply"),
    ("X.sum(dim=1)", TypeError, "called axis"),
    ("X.mean(keepdim=True)", TypeError, "called keepdims"),
    ("gt.stack(X, X)", TypeError, r"gt\.stack\(\[a, b\]\)"),
    ("gt.concat(X, X)", TypeError, r"gt\.concat\(\[a, b\]\)"),
    ("gt.sin(X, out=X)", TypeError, r"write x\[\.\.\.\] = result"),
    ("gt.add(X, X, X)", TypeError, "follows the operands.*again for more"),
    ("gt.maximum(X, X, X)", TypeError, "again for more operands"),
    ("gt.where(X > 0, X, X, X)", TypeError, "follows the operands"),
    ("gt.round(X, 2)", TypeError, "power of ten"),
    ("gt.log(X, 10)", TypeError, r"gt\.log10"),
    ("gt.nn.Sequential(gt.nn.Dense(2), gt.relu)", TypeError, r"Sequential\(\[a, b\]\)"),
    ("gt.nn.Sequential(gt.nn.Dense(2))", TypeError, r"Sequential\(\[a, b\]\)"),
    ("gt.nn.LSTM(hidden_size=3)", TypeError, "here it is called cell"),
    ("gt.nn.LSTM(input_size=2, hidden_size=3)", TypeError, "inputs is inferred"),
    ("gt.nn.LSTM(2, 3)", TypeError, "units only"),
    ("gt.nn.LSTM(3, num_layers=2)", TypeError, "return_sequences=True"),
    ("gt.nn.LSTM(3, batch_first=True)", TypeError, "time_major"),
    ("gt.nn.LSTM(3, bidirectional=True)", TypeError, r"gt\.nn\.Bidirectional"),
    ("gt.nn.Dense(2, 3)", TypeError, "inputs is inferred"),
    ("gt.nn.Dense(2, 3, 4)", TypeError, "inputs is inferred"),
    ("gt.nn.Conv2D(1, 8, kernel_size=3)", TypeError, "takes filters, kernel_size"),
    ("gt.nn.Conv2D(3, 16, 3, padding=1)", TypeError, '"valid" or "same"'),
    ("gt.nn.MaxPool2D(kernel_size=2)", TypeError, "called pool_size"),
    ("gt.nn.Embedding(10)", TypeError, "output_dim is missing. It takes input_dim"),
    ("gt.optimizers.SGD({'w': W})", TypeError, r"optimizer\.apply"),
    ("gt.optimizers.Adam(MODEL.parameters(), 0.1)", TypeError, r"optimizer\.apply"),
    ("ADAM.minimize(gt.sum(W))", TypeError, "variables is missing"),
    ("gt.nn.cross_entropy(X)", TypeError, "labels is missing"),
    ("gt.save(X)", TypeError, "path is missing. It takes tree, path"),
    ("gt.random.integers(0, 10, (3,))", TypeError, "shape first"),
    ("gt.function(lambda x: x, autograph=False)", TypeError, "Leave it out"),
    ("gt.vmap(lambda x: x, in_dims=0)", TypeError, "called in_axes"),
    # Attributes.
    ("setattr(X, 'requires_grad', True)", AttributeError, r"tape\.watch"),
    ("setattr(W, 'grad', None)", AttributeError, r"tape\.gradient"),
    ("delattr(W, 'grad')", AttributeError, r"tape\.gradient"),
    ("X.grad_fn", AttributeError, r"tape\.report"),
    ("X.exp_()", AttributeError, r"x = gt\.exp\(x\)"),
    ("X.softmax(-1)", AttributeError, r"gt\.nn\.softmax"),
    ("X.eq(X)", AttributeError, r"gt\.equal"),
    ("X.inverse()", AttributeError, r"gt\.linalg\.inv"),
    ("X.new_zeros(3)", AttributeError, r"gt\.zeros"),
    ("X.to_numpy()", AttributeError, r"x\.numpy\(\)"),
    ("X.register_hook(print)", AttributeError, r"gt\.custom_gradient"),
    ("MODEL.summary()", AttributeError, r"print\(model\)"),
    ("MODEL.get_weights()", AttributeError, r"model\.variables"),
    ("MODEL.register_buffer('a', X)", AttributeError, "trainable=False"),
    ("ADAM.get_lr()", AttributeError, r"optimizer\.learning_rate"),
    ("X.backward()", AttributeError, r"tape\.gradient"),
    ("X.grad", AttributeError, r"tape\.gradient"),
    ("W.grad", AttributeError, r"tape\.gradient"),
    ("X.detach()", AttributeError, r"gt\.stop_gradient"),
    ("X.requires_grad", AttributeError, r"tape\.watch"),
    ("X.abs()", AttributeError, r"gt\.abs\(x\)"),
    ("X.exp()", AttributeError, r"gt\.exp\(x\)"),
    ("X.view(3, 2)", AttributeError, r"gt\.reshape"),
    ("X.permute(1, 0)", AttributeError, r"gt\.permute_dims"),
    ("X.unsqueeze(0)", AttributeError, r"gt\.expand_dims"),
    ("X.cumsum(0)", AttributeError, r"gt\.cumulative_sum"),
    ("X.cuda()", AttributeError, "CPU"),
    ("X.to('cuda')", AttributeError, "CPU"),
    ("X.float()", AttributeError, r"astype\(gt\.float32\)"),
    ("X.clone()", AttributeError, r"x\.copy\(\)"),
    ("X.numel()", AttributeError, r"x\.size"),
    ("X.at[0].set(1.0)", AttributeError, r"x\[index\] = value"),
    ("X.block_until_ready()", AttributeError, r"gt\.evaluate"),
    ("X.assign(1.0)", AttributeError, r"gt\.Variable"),
    ("W.zero_()", AttributeError, r"x\[\.\.\.\] = value"),
    ("ADAM.step()", AttributeError, r"optimizer\.apply"),
    ("ADAM.zero_grad()", AttributeError, "Leave it out"),
    ("MODEL.zero_grad()", AttributeError, "Leave it out"),
    ("MODEL.forward(X)", AttributeError, r"model\(x\)"),
    ("gt.GradientTape().backward(X)", AttributeError, r"tape\.gradient"),
    # Names of namespaces.
    ("gt.conv2d", AttributeError, r"gt\.conv\b"),
    ("gt.odeint", AttributeError, r"gt\.ode\b"),
    ("gt.custom_vjp", AttributeError, r"gt\.custom_gradient"),
    ("gt.randn", AttributeError, r"gt\.random\.normal"),
    ("gt.nn.Linear", AttributeError, r"gt\.nn\.Dense"),
    ("gt.nn.Conv2d", AttributeError, r"gt\.nn\.Conv2D"),
    ("gt.nn.MSELoss", AttributeError, "mean_squared_error"),
    ("gt.nn.dense", AttributeError, r"gt\.nn\.Dense"),
    ("gt.nn.sin", AttributeError, r"gt\.sin"),
    ("gt.nn.losses.mse", AttributeError, "mean_squared_error"),
    ("gt.random.randn", AttributeError, r"gt\.random\.normal"),
    ("gt.random.rand", AttributeError, r"gt\.random\.uniform"),
    ("gt.random.PRNGKey", AttributeError, r"gt\.random\.Generator"),
    ("gt.cuda.is_available()", AttributeError, "Leave it out: the only device"),
    ("gt.device('cpu')", AttributeError, "Leave it out: the only device"),
    ("gt.no_grad()", AttributeError, r"gt\.stop_gradient"),
    ("gt.lax.scan", AttributeError, r"gt\.scan"),
    ("gt.nn.functional.relu(X)", AttributeError, "gt.nn"),
    ("gt.nn.BatchNorm2d(8)", AttributeError, r"gt\.nn\.BatchNorm"),
    ("gt.nn.MultiheadAttention(8, 2)", AttributeError, r"gt\.nn\.softmax"),
    ("gt.reduce_logsumexp(X)", AttributeError, r"gt\.logsumexp"),
    ("gt.constant(1.0)", AttributeError, r"gt\.asarray"),
    ("gt.Session", AttributeError, "results are computed when they are read"),
    ("gt.losses", AttributeError, r"gt\.nn\.losses"),
    ("gt.FloatTensor([1.0])", AttributeError, r"gt\.asarray"),
    ("gt.gradcheck", AttributeError, r"gt\.testing\.check_gradients"),
    ("gt.tree_leaves", AttributeError, r"gt\.pytree\.flatten"),
    ("gt.optimizers.LBFGS()", AttributeError, r"gt\.minimize"),
    ("gt.linalg.eig", AttributeError, r"gt\.linalg\.eigh"),
    ("gt.linalg.inverse", AttributeError, r"gt\.linalg\.inv"),
    ("gt.optimizers.adam", AttributeError, r"gt\.optimizers\.Adam"),
    ("gt.fft.ftt", AttributeError, r"gt\.fft\.fft"),
    ("gt.linalg.no_such_thing", AttributeError, r"dir\(gradtape\.linalg\)"),
    # Values.
    ("gt.grad(lambda x: None)(1.0)", TypeError, "returned None; is `return` missing"),
    ("gt.value_and_grad(lambda x: None)(1.0)", TypeError, "is `return` missing"),
    ("gt.jacobian(lambda x: None)(X)", TypeError, "is `return` missing"),
    ("gt.hessian(lambda x: None)(X)", TypeError, "is `return` missing"),
    ("gt.vjp(lambda x: None, X)", TypeError, "is `return` missing"),
    ("gt.jvp(lambda x: None, (X,), (X,))", TypeError, "is `return` missing"),
    ("gt.root(lambda x: None, 1.0)", TypeError, "is `return` missing"),
    ("gt.minimize(lambda x: None, 1.0)", TypeError, "is `return` missing"),
    ("gt.sin(None)", TypeError, "^None is not a number"),
    ("X * None", TypeError, "^None is not a number"),
    ("gt.Tensor([1.0])", TypeError, r"gt\.asarray"),
    ("ADAM.apply([], [])", ValueError, "before its first call"),
    ("gt.save('state.npz', {'w': W})", TypeError, r"gt\.save\(tree, path\)"),
    ("f'{X:.2f}'", TypeError, "single numbers"),
    ("f'{W:.2f}'", TypeError, "single numbers"),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_mistake_names_what_to_write(call, kind, words):
    with pytest.raises(kind, match=words):
        eval(call)


def test_the_history_of_a_step_without_a_loss_says_so():
    history = gt.fit(lambda x: None, np.ones((8, 2)), progress="off")
    assert "the step returned None, not the loss" in repr(history)


def test_users_classes_may_have_attributes_of_these_names():
    class Model(gt.nn.Module):
        def __init__(self):
            self.weights, self.params = gt.Variable(2.0), [gt.Variable(1.0)]

    model = Model()
    assert float(model.weights) == 2.0
    assert len(model.parameters()) == 2
    del model.weights
    assert not hasattr(model, "weights")


def test_hints_are_not_attributes():
    for thing in (X, W, ADAM, MODEL, gt.GradientTape()):
        assert not hasattr(thing, "zero_grad")
        assert not hasattr(thing, "backward")
        assert not {"zero_grad", "backward", "detach"} & set(dir(thing))


HIDDEN = {
    "tensor": (X, "node recording rebind enter materialize result_class view_class"),
    "variable": (W, "enter_unnoticed hold_again lock number reads_are_recorded"),
    "tape": (gt.GradientTape(), "entered_in follows is_entered leave note_read of_function settle"),
    "losses": (gt.nn.losses, "np math Any gt EPSILON reduced matched"),
    "optimizers": (gt.optimizers, "pairs rows rate updates optimizer"),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_internals_are_not_listed(name):
    thing, names = HIDDEN[name]
    assert not set(names.split()) & set(dir(thing))
    assert {"tensor": "shape", "losses": "huber", "optimizers": "Adam"}.get(name, "__doc__") in dir(
        thing
    )


def test_signatures_show_types():
    for name in gt.__all__:
        function = getattr(gt, name)
        if inspect.isfunction(function) and hasattr(inspect.unwrap(function), "op"):
            assert "Any" not in str(inspect.signature(function)), name
    assert str(inspect.signature(gt.sin)) == "(x: 'TensorLike', /) -> 'Tensor'"
    for function in (gt.sum, gt.concat, gt.where, gt.zeros, gt.linalg.svd):
        shown = str(inspect.signature(function))
        assert not [word for word in ("Any", "Never", "object") if word in shown]


PROGRAM = """
import gradtape as gt
def model(x):
    return gt.linalg.solve(x, gt.ones(3))
gt.grad(lambda x: gt.sum(model(x)))(gt.ones((2, 2)))
"""


@pytest.mark.parametrize("choice", ["short", "full"])
def test_a_traceback_ends_at_the_users_line(tmp_path, choice):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "GRADTAPE_TRACEBACK": choice}
    run = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment, check=False
    )
    files = [line for line in run.stderr.splitlines() if line.lstrip().startswith("File ")]
    assert run.returncode == 1
    assert "ShapeError: solve:" in run.stderr.splitlines()[-1]
    if choice == "short":
        assert all("script.py" in line for line in files)
        assert "line 4, in model" in files[-1]
    else:
        assert any("gradtape" in line and "script.py" not in line for line in files)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("exp(gt.ones(3), dtype=int)", "exp: there is no argument 'dtype'. Convert with x.astype"),
        ("relu(gt.ones(3), inplace=True)", "relu: there is no argument 'inplace'. Results are new"),
        ("add(1.0, 2.0, name='n')", "add: there is no argument 'name'."),
    ],
)
def test_pythons_words_for_a_keyword_come_with_ours(tmp_path, call, words):
    script = tmp_path / "script.py"
    script.write_text(f"import gradtape as gt\ngt.{call}\n")
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert words in run.stderr.splitlines()[-1]
