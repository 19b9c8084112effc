"""A user's program, for type checkers: `test_typing.py` reads the comments. It is never run.

A line with `# expect: T` must reveal the type T, and one with `# error` must be refused; every other
line must be accepted.
"""

# ruff: noqa
from __future__ import annotations

import numpy as np
from typing import reveal_type

import gradtape as gt
import gradtape.tf as tf

x: gt.Tensor = gt.asarray([1.0, 2.0])
weight = gt.Variable([[1.0, 2.0], [3.0, 4.0]])
array = np.ones(2)

reveal_type(gt.asarray(1.0))  # expect: Tensor

# Functions of one operand, of two, and of an operand and options.
reveal_type(gt.sin(x))  # expect: Tensor
reveal_type(gt.sin(1.0))  # expect: Tensor
reveal_type(gt.sin(array))  # expect: Tensor
reveal_type(gt.exp([1.0, 2.0]))  # expect: Tensor
reveal_type(gt.floor(weight))  # expect: Tensor
reveal_type(gt.add(x, 1.0))  # expect: Tensor
reveal_type(gt.maximum(0.0, x))  # expect: Tensor
reveal_type(gt.where(x > 0.0, x, 0.0))  # expect: Tensor
reveal_type(gt.sum(x))  # expect: Tensor
reveal_type(gt.sum(weight, axis=0, keepdims=True))  # expect: Tensor
reveal_type(gt.mean(x, axis=(0,)))  # expect: Tensor
reveal_type(gt.reshape(x, (2, 1)))  # expect: Tensor
reveal_type(gt.concat([x, x]))  # expect: Tensor
reveal_type(gt.split(x, 2))  # expect: tuple[Tensor, ...]
reveal_type(gt.matmul(weight, x))  # expect: Tensor
reveal_type(gt.einsum("ij,j->i", weight, x))  # expect: Tensor
reveal_type(gt.zeros((2, 3), dtype=gt.float32))  # expect: Tensor
reveal_type(gt.linalg.solve(weight, x))  # expect: Tensor
reveal_type(gt.linalg.qr(weight).Q)  # expect: Tensor
reveal_type(gt.linalg.eigh(weight).eigenvalues)  # expect: Tensor
reveal_type(gt.linalg.svd(weight).S)  # expect: Tensor
reveal_type(gt.linalg.slogdet(weight).logabsdet)  # expect: Tensor
reveal_type(gt.fft.fft(x))  # expect: Tensor
reveal_type(gt.nn.softmax(x))  # expect: Tensor
reveal_type(gt.nn.losses.mean_squared_error(x, array))  # expect: Tensor

# Operators and indexing.
reveal_type(x + 1.0)  # expect: Tensor
reveal_type(2.0 * x)  # expect: Tensor
reveal_type(-x)  # expect: Tensor
reveal_type(weight @ x)  # expect: Tensor
reveal_type(x > 0.0)  # expect: Tensor
reveal_type(x[0])  # expect: Tensor
reveal_type(weight.value)  # expect: Tensor
reveal_type(x.shape)  # expect: tuple[int, ...]


def loss(x: gt.Tensor) -> gt.Tensor:
    return gt.sum(gt.square(x))


@gt.function
def step(x: gt.Tensor) -> gt.Tensor:
    return x - 0.1 * gt.grad(loss)(x)


# Derivatives of functions, and captured ones.
reveal_type(gt.grad(loss)(x))  # expect: Tensor
reveal_type(step(x))  # expect: Tensor
with gt.GradientTape() as tape:
    tape.watch(x)
    y = loss(x)

optimizer = gt.optimizers.Adam(0.1, beta_1=0.8, clipnorm=1.0)
optimizer.minimize(lambda: gt.sum(weight.value), [weight])

# Modules: a call gives what `call` gives.
images = gt.nn.Conv2D(2, 3)(x)
reveal_type(images)  # expect: Tensor
reveal_type(gt.nn.Dense(2)(array))  # expect: Tensor
reveal_type(gt.nn.LayerNorm()(x))  # expect: Tensor
reveal_type(gt.nn.BatchNorm()(x, training=True))  # expect: Tensor
reveal_type(gt.nn.Dropout(0.5)(x))  # expect: Tensor
reveal_type(gt.nn.Embedding(8, 2)([1, 2]))  # expect: Tensor
reveal_type(gt.nn.Sequential([gt.nn.Dense(2), gt.nn.relu])(array))  # expect: Tensor
reveal_type(gt.nn.LSTMCell(2)(x))  # expect: tuple[Tensor, list[Tensor]]


class Block(gt.nn.Module):
    def __init__(self) -> None:
        self.dense = gt.nn.Dense(2)

    def call(self, x: gt.Tensor) -> gt.Tensor:
        return x + self.dense(x)


reveal_type(Block()(x))  # expect: Tensor
reveal_type(gt.value_and_grad(loss)(x)[0])  # expect: Tensor
reveal_type(tape.gradient(y, x))  # expect: Tensor
reveal_type(tape.gradient(y, [weight]))  # expect: list[Tensor]

# Keras: arguments by name, class, function or object.
row = tf.constant([[1.0, 2.0]])
reveal_type(row * 2.0 + row)  # expect: Tensor
reveal_type(tf.keras.activations.relu(row))  # expect: Tensor
reveal_type(tf.keras.losses.mse(row, row))  # expect: Tensor
reveal_type(tf.keras.metrics.binary_accuracy(row, row))  # expect: Tensor
reveal_type(tf.keras.metrics.Mean().result())  # expect: Tensor
tf.keras.layers.Dense(2, activation="relu", kernel_regularizer=tf.keras.regularizers.L2(0.1))
tf.keras.layers.Dense(2, activation=tf.nn.relu, bias_constraint=tf.keras.constraints.NonNeg)
tf.keras.layers.Dense(2, kernel_initializer=lambda shape, dtype=None: np.ones(shape))
tf.keras.layers.Dense(2, kernel_initializer=tf.keras.initializers.RandomNormal(stddev=0.1))
tf.keras.layers.MaxPooling2D(2)


class Shifted(tf.keras.layers.Dense):
    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return super().call(inputs) + 1.0


tf.keras.layers.Dense(2, activation=3)  # error
tf.keras.layers.Dense(2, kernel_regularizer=0.1)  # error

gt.sin()  # error
gt.sin(x, x)  # error
gt.sin("wrong")  # error
gt.add(x)  # error
gt.sum(x, axes=0)  # error
gt.concatenate([x, x])  # error
gt.optimizers.Adam(beta_3=0.8)  # error
step("wrong")  # error
