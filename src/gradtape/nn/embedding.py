"""Embedding: rows of a table, looked up by integers."""

from __future__ import annotations

from gradtape.dtypes import DTypeLike, default_dtype
from gradtape.nn.initializers import InitializerLike
from gradtape.nn.layer import Layer, words
from gradtape.ops.arrays.indexing import take
from gradtape.tensor import Tensor, TensorLike, asarray

__all__ = ["Embedding"]


class Embedding(Layer):
    """Rows of a table of `input_dim` vectors, looked up by integers of any shape.

    >>> layer = gt.nn.Embedding(1000, 8)
    >>> layer([[4, 10], [4, 0]]).shape
    (2, 2, 8)

    The gradient of the table is row-sparse, and optimisers apply it so.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: InitializerLike = "uniform",
        *,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, default_dtype() if dtype is None else dtype)
        if input_dim <= 0 or output_dim <= 0:
            raise ValueError(
                f"Embedding: a table of {input_dim} vectors of length {output_dim} holds nothing. "
                "Give positive numbers."
            )
        self.input_dim = int(input_dim)
        self.output_dim = int(output_dim)
        self.embeddings = self.add_variable(
            "embeddings", (self.input_dim, self.output_dim), embeddings_initializer
        )
        self.built = True

    def __call__(self, indices: TensorLike) -> Tensor:
        """The rows at the indices, of shape indices.shape + (output_dim,)."""
        return self.call(asarray(indices))

    def call(self, indices: Tensor) -> Tensor:
        """The same for a tensor of integers."""
        return take(self.embeddings, indices, axis=0)

    def describe(self) -> str:
        """The arguments that `repr` shows."""
        return words(input_dim=self.input_dim, output_dim=self.output_dim)
