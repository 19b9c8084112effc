"""Recurrent layers against loops in NumPy."""

import numpy as np
import pytest
from scipy.special import expit

import gradtape as gt
from gradtape import nn

RNG = np.random.default_rng(0)
BATCH, TIME, FEATURES, UNITS = 2, 4, 3, 5
X = RNG.normal(size=(BATCH, TIME, FEATURES))


def simple(w, x, state):
    (h,) = state
    h = np.tanh(x @ w["kernel"] + h @ w["recurrent_kernel"] + w.get("bias", 0))
    return h, [h]


def lstm(w, x, state):
    h, c = state
    z = x @ w["kernel"] + h @ w["recurrent_kernel"] + w.get("bias", 0)
    i, f, g, o = np.split(z, 4, axis=1)
    c = expit(f) * c + expit(i) * np.tanh(g)
    h = expit(o) * np.tanh(c)
    return h, [h, c]


def gru(w, x, state):
    (h,) = state
    b = w.get("bias", np.zeros((2, 3 * UNITS)))
    xz, xr, xh = np.split(x @ w["kernel"] + b[0], 3, axis=1)
    hz, hr, hh = np.split(h @ w["recurrent_kernel"] + b[1], 3, axis=1)
    z, r = expit(xz + hz), expit(xr + hr)
    h = z * h + (1 - z) * np.tanh(xh + r * hh)
    return h, [h]


def gru_reset_before(w, x, state):
    (h,) = state
    xz, xr, xh = np.split(x @ w["kernel"] + w.get("bias", 0), 3, axis=1)
    kz, kr, kh = np.split(w["recurrent_kernel"], 3, axis=1)
    z, r = expit(xz + h @ kz), expit(xr + h @ kr)
    h = z * h + (1 - z) * np.tanh(xh + (r * h) @ kh)
    return h, [h]


KINDS = {
    "rnn": (nn.RNN, nn.RNNCell, simple, 1, {}),
    "lstm": (nn.LSTM, nn.LSTMCell, lstm, 2, {}),
    "gru": (nn.GRU, nn.GRUCell, gru, 1, {}),
    "gru before": (nn.GRU, nn.GRUCell, gru_reset_before, 1, {"reset_after": False}),
}


def weights(cell):
    return {name: variable.numpy() for name, variable in cell.named_variables()}


def reference(step, w, x, state):
    outputs = []
    for t in range(x.shape[1]):
        output, state = step(w, x[:, t], state)
        outputs.append(output)
    return np.stack(outputs, 1), state


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_layer_against_a_loop(kind, use_bias):
    layer_class, _, step, states, options = KINDS[kind]
    layer = layer_class(
        UNITS, return_sequences=True, return_state=True, use_bias=use_bias,
        bias_initializer="normal", **options,
    )  # fmt: skip
    start = [RNG.normal(size=(BATCH, UNITS)) for _ in range(states)]
    for initial in (None, start):
        sequence, *state = layer(X, initial_state=initial)
        zeros = [np.zeros((BATCH, UNITS))] * states
        expected, last = reference(step, weights(layer.cell), X, initial or zeros)
        np.testing.assert_allclose(sequence.numpy(), expected, rtol=1e-11, atol=1e-13)
        for one, other in zip(state, last, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_cell_is_one_step(kind):
    _, cell_class, step, states, options = KINDS[kind]
    cell = cell_class(UNITS, bias_initializer="normal", **options)
    state = [RNG.normal(size=(BATCH, UNITS)) for _ in range(states)]
    output, new = cell(X[:, 0], state)
    expected, last = step(weights(cell), X[:, 0], state)
    np.testing.assert_allclose(output.numpy(), expected, rtol=1e-12)
    assert isinstance(new, list)
    for one, other in zip(new, last, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind):
    layer_class, _, _, _, options = KINDS[kind]
    layer = layer_class(2, **options)
    x = X[:, :3]
    layer(x)
    gt.testing.check_gradients(lambda x: gt.sum(gt.sin(layer(x))), x)
    variables = layer.parameters()

    def loss():
        return gt.sum(gt.sin(layer(x)))

    with gt.GradientTape() as tape:
        y = loss()
    for variable, slope in zip(variables, tape.gradient(y, variables), strict=True):
        value = variable.numpy().copy()
        direction = np.cos(np.arange(value.size)).reshape(value.shape)
        ends = []
        for sign in (1, -1):
            variable.assign(value + sign * 1e-6 * direction)
            ends.append(float(loss()))
        variable.assign(value)
        expected = (ends[0] - ends[1]) / 2e-6
        assert np.sum(slope.numpy() * direction) == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_what_is_returned():
    layer = nn.LSTM(UNITS)
    last = layer(X)
    layer.return_sequences = True
    np.testing.assert_allclose(layer(X).numpy()[:, -1], last.numpy(), rtol=1e-12)
    layer.return_state = True
    sequence, h, c = layer(X)
    assert (sequence.shape, c.shape) == ((BATCH, TIME, UNITS), (BATCH, UNITS))
    np.testing.assert_allclose(h.numpy(), last.numpy(), rtol=1e-12)


def test_backwards_in_time():
    layer = nn.GRU(UNITS, go_backwards=True, return_sequences=True)
    expected = layer(X)
    layer.go_backwards = False
    np.testing.assert_allclose(layer(X[:, ::-1]).numpy(), expected.numpy(), rtol=1e-12)


def test_shapes_and_starting_values():
    layer = nn.LSTM(UNITS, dtype="float32")
    assert layer(X).dtype == np.float32
    w = weights(layer.cell)
    assert w["kernel"].shape == (FEATURES, 4 * UNITS)
    assert w["recurrent_kernel"].shape == (UNITS, 4 * UNITS)
    assert w["bias"].tolist() == [0] * UNITS + [1] * UNITS + [0] * 2 * UNITS
    r = w["recurrent_kernel"]
    np.testing.assert_allclose(r @ r.T, np.eye(UNITS), atol=1e-6)
    plain = nn.LSTM(UNITS, unit_forget_bias=False)
    plain(X)
    assert not plain.cell.bias.numpy().any()


def test_names_of_variables():
    layer = nn.GRU(2)
    layer(X)
    names = [name for name, _ in layer.named_parameters()]
    assert names == ["cell.kernel", "cell.recurrent_kernel", "cell.bias"]


def test_a_cell_can_be_given():
    cell = nn.GRUCell(UNITS)
    last, sequence = nn.RNN(cell)(X), nn.RNN(cell, return_sequences=True)(X)
    np.testing.assert_allclose(last.numpy(), sequence.numpy()[:, -1], rtol=1e-12)
    with pytest.raises(TypeError, match="use_bias belongs to the cell"):
        nn.RNN(cell, use_bias=False)


def test_errors():
    layer = nn.LSTM(UNITS, name="memory")
    with pytest.raises(ValueError, match=r"memory: an input of shape \(2, 3\)"):
        layer(X[:, 0])
    with pytest.raises(ValueError, match="at least one step"):
        nn.GRU(2)(X[:, :0])
    with pytest.raises(ValueError, match=r"It needs \[\(2, 5\), \(2, 5\)\]"):
        nn.LSTM(UNITS)(X, initial_state=np.zeros((2, 5)))
    with pytest.raises(ValueError, match="units=0"):
        nn.LSTM(0)


def test_one_plan_per_step():
    layer, head = nn.LSTM(4), nn.Dense(1)
    optimizer = gt.optimizers.Adam()
    x = gt.asarray(X.astype("float32"))

    def step():
        with gt.GradientTape() as tape:
            loss = gt.sum(gt.square(head(layer(x))))
        variables = layer.parameters() + head.parameters()
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    for _ in range(6):
        step()
    before = gt.counters()
    for _ in range(3):
        step()
    after = gt.counters()
    assert after.plans_run - before.plans_run == 3
    assert after.plans_built == before.plans_built
    assert after.kernels_compiled == before.kernels_compiled
    assert after.bytes_allocated == before.bytes_allocated


class TestMasks:
    mask = np.array([[True, False, True, True], [False, True, False, False]])

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("backwards", [False, True])
    def test_steps_that_do_not_count(self, kind, backwards):
        make, _, step, states, options = KINDS[kind]
        layer = make(UNITS, return_sequences=True, return_state=True, go_backwards=backwards,
                     dtype="float64", **options)  # fmt: skip
        found, *last = layer(X, mask=self.mask)
        w = weights(layer.cell)
        x, mask = (X[:, ::-1], self.mask[:, ::-1]) if backwards else (X, self.mask)
        state = [np.zeros((BATCH, UNITS))] * states
        output, outputs = np.zeros((BATCH, UNITS)), []
        for t in range(TIME):
            new_output, new = step(w, x[:, t], state)
            counts = mask[:, t, None]
            output = np.where(counts, new_output, output)
            state = [np.where(counts, n, o) for n, o in zip(new, state, strict=True)]
            outputs.append(output)
        np.testing.assert_allclose(found, np.stack(outputs, 1), rtol=1e-12)
        for a, b in zip(last, state, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)

    def test_shapes(self):
        layer = nn.LSTM(UNITS)
        with pytest.raises(ValueError, match=r"mask of shape \(4, 2\)"):
            layer(X, mask=self.mask.T)
        full = layer(X).numpy()
        np.testing.assert_array_equal(layer(X, mask=np.ones((BATCH, TIME))), full)

    @pytest.mark.slow
    def test_gradients(self):
        layer = nn.GRU(UNITS, dtype="float64")
        layer(X)
        gt.testing.check_gradients(lambda x: gt.sum(gt.sin(layer(x, mask=self.mask))), X)


def test_time_may_be_first():
    layer = nn.LSTM(UNITS, return_sequences=True, dtype="float64")
    expected = layer(X).numpy()
    layer.time_major = True
    found = layer(np.moveaxis(X, 1, 0))
    np.testing.assert_allclose(found, np.moveaxis(expected, 1, 0), rtol=1e-12)
    assert nn.GRU(3, time_major=True)(np.moveaxis(X, 1, 0)).shape == (BATCH, 3)


class TestBidirectional:
    @pytest.mark.parametrize("sequences", [False, True])
    def test_both_ways(self, sequences):
        layer = nn.Bidirectional(nn.LSTM(UNITS, return_sequences=sequences, dtype="float64"))
        found = layer(X).numpy()
        one = layer.forward_layer(X).numpy()
        two = layer.backward_layer(X).numpy()
        two = two[:, ::-1] if sequences else two
        np.testing.assert_allclose(found, np.concatenate([one, two], -1), rtol=1e-12, atol=1e-14)
        names = [name for name, _ in layer.named_parameters()]
        assert len(names) == 6
        assert "backward_layer.cell.kernel" in names
        kernels = [layer.forward_layer.cell.kernel, layer.backward_layer.cell.kernel]
        assert (kernels[0].numpy() != kernels[1].numpy()).any()

    def test_states_and_modes(self):
        layer = nn.Bidirectional(nn.LSTM(UNITS, return_state=True), merge_mode="ave")
        found = layer(X)
        assert [y.shape for y in found] == [(BATCH, UNITS)] * 5
        again = layer(X, initial_state=found[1:])
        assert again[0].shape == (BATCH, UNITS)
        both = nn.Bidirectional(nn.GRU(UNITS), merge_mode=None)(X)
        assert len(both) == 2

    def test_errors(self):
        with pytest.raises(TypeError, match="recurrent"):
            nn.Bidirectional(nn.Dense(3))
        with pytest.raises(ValueError, match="merge_mode"):
            nn.Bidirectional(nn.GRU(3), merge_mode="max")
        with pytest.raises(ValueError, match="same way"):
            nn.Bidirectional(nn.GRU(3), backward_layer=nn.GRU(3))
