"""Random functions of tensors: from a list of numbers, ops of every family on top of each other."""

import numpy as np

import gradtape as gt

# Larger values are flattened and cut: Jacobians have the square of their size.
LARGEST = 24


def positive_matrix(x):
    """A well-conditioned symmetric matrix of a tensor's first elements."""
    flat = gt.tanh(gt.reshape(x, (-1,)))
    part = gt.reshape(gt.concat([flat, flat, flat, flat])[:4], (2, 2))
    return part @ gt.matrix_transpose(part) + 2.0 * np.eye(2)


def written(x, y):
    """Mutation: a part of a copy is overwritten."""
    z = gt.multiply(x, 1.0)  # an array of NumPy would take the number only
    if z.ndim and z.shape[0]:
        z[0] = gt.sum(y) * 0.5
    return z


UNARY = [
    gt.sin, gt.tanh, gt.sigmoid, gt.negative, gt.square, gt.atan, lambda x: gt.exp(gt.tanh(x)),
    lambda x: x * 0.5 + 1.0, lambda x: 1.0 / (1.0 + gt.square(x)), lambda x: gt.sqrt(1.0 + x * x),
    gt.abs, gt.relu,
]  # fmt: skip
BINARY = [
    gt.add, gt.subtract, gt.multiply, lambda x, y: x / (1.5 + gt.square(y)), gt.logaddexp,
    gt.maximum, lambda x, y: gt.where(x > y, x, y * 2.0), written,
    lambda x, y: gt.where(gt.stop_gradient(y) > 0.1, x, 0.0), lambda x, y: gt.hypot(x, y + 1.5),
]  # fmt: skip
PARTS = [
    lambda x: x[1:], lambda x: x[:-1], lambda x: x[::2], lambda x: x[..., 0], lambda x: x[None],
    lambda x: x[::-1], lambda x: x[0], lambda x: x[..., 1:], lambda x: x[-1:], lambda x: x[:0],
]  # fmt: skip
MOVED = [
    lambda x: gt.reshape(x, (-1,)), lambda x: gt.permute_dims(x, tuple(range(x.ndim))[::-1]),
    lambda x: gt.broadcast_to(x, (2, *x.shape)), lambda x: gt.expand_dims(x, axis=0),
    lambda x: gt.reshape(x, (1, x.size)), lambda x: gt.roll(x, 1), lambda x: gt.flip(x),
    lambda x: gt.reshape(x, (x.size, 1)), lambda x: gt.repeat(gt.reshape(x, (-1,)), 2),
    lambda x: gt.tile(gt.reshape(x, (-1,)), (2,)), lambda x: gt.pad(gt.reshape(x, (-1,)), 1),
]  # fmt: skip
# Along one axis.
ALONG = [
    lambda x, axis: gt.sum(x, axis=axis), lambda x, axis: gt.mean(x, axis=axis, keepdims=True),
    lambda x, axis: gt.cumulative_sum(x, axis=axis), lambda x, axis: gt.sort(x, axis=axis),
    lambda x, axis: gt.nn.softmax(x, axis=axis), lambda x, axis: gt.logsumexp(x, axis=axis),
    lambda x, axis: gt.max(x, axis=axis), lambda x, axis: gt.linalg.vector_norm(x + 2, axis=axis),
    lambda x, axis: gt.prod(x, axis=axis, keepdims=True), lambda x, axis: gt.roll(x, 1, axis=axis),
    lambda x, axis: gt.take(x, np.array([0, 0, -1 % x.shape[axis]]), axis=axis),
    lambda x, axis: gt.flip(x, axis=axis), lambda x, axis: gt.var(x, axis=axis),
    lambda x, axis: gt.sum(x, axis=axis, keepdims=True),
    lambda x, axis: gt.stack([x, x * x], axis=axis),
    lambda x, axis: gt.concat([x, gt.sin(x)], axis=axis), lambda x, axis: gt.diff(x, axis=axis),
    lambda x, axis: gt.real(gt.fft.ifft(gt.fft.fft(x + 0j, axis=axis) ** 2, axis=axis)),
]  # fmt: skip
MATRICES = [
    gt.linalg.inv, gt.linalg.cholesky, gt.linalg.det, lambda m: gt.linalg.eigh(m)[0],
    lambda m: gt.linalg.solve(m, np.array([1.0, 2.0])), gt.linalg.trace,
    lambda m: gt.linalg.slogdet(m)[1],
]  # fmt: skip


@gt.custom_gradient
def by_hand(x):
    return gt.sin(x) * x, lambda g: g * (gt.sin(x) + x * gt.cos(x))


@gt.custom_jvp
def by_hand_forward(x):
    return gt.exp(gt.tanh(x))


@by_hand_forward.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    y = gt.tanh(x)
    return gt.exp(y), gt.exp(y) * (1.0 - y * y) * t


def scanned(x):
    """A loop over a few values, and what it carries at each step."""
    flat = gt.reshape(x, (-1,))[:4]
    last, steps = gt.scan(lambda c, e: (gt.sin(c) + e, c * e), gt.asarray(0.5), flat)
    return gt.concat([steps, gt.reshape(last, (1,))])


def looked_up(x):
    """Values added at places of which some are the same, and read again along an axis."""
    flat = gt.reshape(x, (-1,))
    places = np.arange(flat.size) * 2 % 5
    table = gt.scatter_add(gt.zeros(5), places, flat * flat)
    return gt.take_along_axis(table, np.array([4, 0, 0, 2]), axis=0) * gt.sum(table[1:3])


def convolved(x):
    flat = gt.reshape(x, (-1,))
    padded = gt.pad(flat, 1)
    weights = (0.5, -1.0, 0.3)
    return sum(w * padded[at : at + flat.size] for at, w in enumerate(weights))


# Loops, branches, derivatives by hand, solvers: what is more than an op.
PROGRAMS = [
    by_hand, by_hand_forward, scanned, looked_up, convolved,
    lambda x: gt.checkpoint(lambda x: gt.sin(x) * gt.exp(gt.tanh(x)))(x),
    lambda x: gt.fori_loop(0, 3, lambda _, c: gt.sin(c) + 0.5 * x, x),
    lambda x: gt.cond(gt.sum(gt.stop_gradient(x)) > 0.1, gt.sin, lambda x: x * x, x),
    lambda x: gt.vmap(lambda r: gt.cumulative_sum(r) * r[0])(gt.reshape(x, (-1, 1)) + np.eye(2)[0]),
    lambda x: gt.root(lambda y, a: y**3 + y - gt.sin(a), np.zeros(x.shape), x),
    lambda x: gt.grad(lambda y: gt.sum(gt.sin(y) * y))(x),
    lambda x: gt.abs(gt.fft.fft(gt.reshape(x, (-1,)) * 1j + 1.0)) ** 2,
    lambda x: gt.real(gt.exp(1j * x) * gt.conj(gt.cos(x + 0.5j))),
    lambda x: gt.associative_scan(lambda a, b: a * b, 0.5 * gt.sin(gt.reshape(x, (-1,)))),
    lambda x: gt.sum(gt.function(lambda x: gt.sin(x) * x)(x)) * x,
]  # fmt: skip
KINDS = (
    "unary", "unary", "binary", "binary", "part", "part", "moved", "along", "along", "product",
    "matrix", "gather", "join", "program", "program",
)  # fmt: skip


def bounded(x):
    """Neither so large that the test takes long, nor out of range."""
    if x.size > LARGEST:
        x = gt.reshape(x, (-1,))[:LARGEST]
    return gt.tanh(x)


def product(x, y, choice):
    if not x.ndim:
        return x * x
    weights = np.sin(np.arange(3.0 * x.shape[-1])).reshape(x.shape[-1], 3)
    if choice % 4 == 0:
        return x @ weights
    if choice % 4 == 1:
        return gt.einsum("i,...i->...", gt.reshape(y, (-1,))[:1] + np.cos(weights[:, 0]), x)
    if choice % 4 == 2 and x.ndim == 2:
        return x @ gt.matrix_transpose(x)
    return gt.vecdot(x, gt.sin(x))


def joined(x, y, choice):
    one, other = gt.reshape(x, (-1,)), gt.reshape(y, (-1,))
    if choice % 3 == 0:
        return gt.concat([one, other * other])
    if choice % 3 == 1 and one.size:
        return gt.stack([one[at] * one[at - 1] for at in range(min(4, one.size))])
    return gt.concat([one, np.ones(2), one * 2.0])


def broadcasts(x, y):
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return True


def apply(steps, *sources):
    """The value of a random function; where a shape does not fit a step, another op steps in."""
    values = list(sources)
    for kind, choice, first, second in steps:
        x, y = values[first % len(values)], values[second % len(values)]
        kind = KINDS[kind % len(KINDS)]
        axis = choice % x.ndim if x.ndim else 0
        if kind == "binary" and broadcasts(x, y):
            found = BINARY[choice % len(BINARY)](x, y)
        elif kind == "part" and x.ndim and x.shape[0] and x.shape[-1]:
            found = PARTS[choice % len(PARTS)](x)
        elif kind == "moved" and x.size:
            found = MOVED[choice % len(MOVED)](x)
        elif kind == "along" and x.ndim and x.size:
            found = ALONG[choice % len(ALONG)](x, axis)
        elif kind == "product" and x.size and y.size:
            found = product(x, y, choice)
        elif kind == "matrix" and x.size:
            found = MATRICES[choice % len(MATRICES)](positive_matrix(x))
        elif kind == "gather" and x.size:
            found = gt.reshape(x, (-1,))[np.arange(5) * (choice + 1) % x.size]
        elif kind == "join":
            found = joined(x, y, choice)
        elif kind == "program" and x.size:
            found = PROGRAMS[choice % len(PROGRAMS)](x)
        else:
            found = UNARY[choice % len(UNARY)](x)
        values.append(bounded(found))
    return values[-1]


# Holomorphic ones: no conjugates, no parts.
HOLOMORPHIC = [
    gt.exp, gt.sin, gt.square, lambda z: 1.0 / (3.0 + z), lambda z: z * (0.5 - 1j),
    lambda z: gt.log(4.0 + z), lambda z: z[::-1] * z, lambda z: z[1:], lambda z: gt.roll(z, 1),
    lambda z: gt.fft.fft(z), lambda z: gt.fft.ifft(z * z), lambda z: gt.cumulative_sum(z),
    lambda z: gt.sum(z) * z, lambda z: gt.einsum("i,j->j", z, gt.sin(z)),
    lambda z: gt.linalg.solve(np.eye(z.size) * 3.0 + gt.outer(z, z) * 0.1, z),
    lambda z: z[np.arange(3) % z.size] * z[0], lambda z: gt.concat([z, 1j * z]),
    lambda z: z @ (np.ones((z.size, 2)) + 1j * np.arange(2.0)), lambda z: gt.cumulative_prod(z),
    lambda z: gt.reshape(gt.stack([z, gt.exp(z)]), (-1,)), lambda z: gt.mean(z, keepdims=True),
    lambda z: gt.where(np.arange(z.size) % 2 == 0, z, z * z), lambda z: gt.pad(z, 1),
]  # fmt: skip


def apply_holomorphic(steps, z):
    """The value of a random holomorphic function of a vector."""
    values = [z]
    for kind, choice, first, second in steps:
        x, y = values[first % len(values)], values[second % len(values)]
        if kind % 4 == 0 and x.shape == y.shape:
            found = x * y + x
        else:
            found = HOLOMORPHIC[(choice + kind) % len(HOLOMORPHIC)](x)
        if found.size > LARGEST:
            found = found[:LARGEST]
        # So that compositions stay where differences mean something.
        values.append(gt.sin(found * 0.2) if found.size else x * 2.0)
    return values[-1]
