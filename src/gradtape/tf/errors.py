"""Exceptions under TensorFlow's names: `tf.errors`."""

from __future__ import annotations

from gradtape.errors import ArgumentError, NotRecordingError, UndefinedRuleError
from gradtape.tf.suggestions import attribute_finder

__all__ = [
    "FailedPreconditionError", "InvalidArgumentError", "OpError", "UnimplementedError",
]  # fmt: skip


class InvalidValueError(ArgumentError, ValueError):
    """A value that an op does not accept: what TensorFlow tells by an InvalidArgumentError."""


# The base of gradtape's errors about shapes and dtypes, so that `except` finds all of them.
InvalidArgumentError = OpError = ArgumentError
FailedPreconditionError = NotRecordingError
UnimplementedError = UndefinedRuleError

__getattr__ = attribute_finder(__name__, globals())
