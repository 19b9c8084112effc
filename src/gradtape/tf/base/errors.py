"""Exceptions under TensorFlow's names: `tf.errors`."""

from __future__ import annotations

from gradtape.errors import ArgumentError, NotRecordingError, UndefinedRuleError
from gradtape.libraries import check_exports

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OperatorNotAllowedInGraphError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
]

# The base of gradtape's errors about shapes and dtypes, so that `except` finds all of them.
InvalidArgumentError = ArgumentError
OpError = ArgumentError
FailedPreconditionError = NotRecordingError
UnimplementedError = UndefinedRuleError


class InvalidValueError(ArgumentError, ValueError):
    """A value that an op does not accept; TensorFlow raises an InvalidArgumentError for it."""


class OutOfRangeError(OpError):
    """An index beyond the end, for example of a TensorArray.

    >>> issubclass(tf.errors.OutOfRangeError, tf.errors.OpError)
    True
    """


class NotFoundError(OpError, FileNotFoundError):
    """A file, such as a checkpoint, that is not there.

    >>> issubclass(tf.errors.NotFoundError, FileNotFoundError)
    True
    """


class OperatorNotAllowedInGraphError(TypeError):
    """A Python operator on a tensor that has no value yet.

    >>> issubclass(tf.errors.OperatorNotAllowedInGraphError, TypeError)
    True
    """


def _never_raised(name: str) -> type[OpError]:
    """An error of distributed TensorFlow, so that code which handles it runs."""
    doc = f"""Never raised here; code that handles it runs.

    >>> issubclass(tf.errors.{name}, tf.errors.OpError)
    True
    """
    return type(name, (OpError,), {"__doc__": doc, "__module__": __name__})


AbortedError = _never_raised("AbortedError")
AlreadyExistsError = _never_raised("AlreadyExistsError")
CancelledError = _never_raised("CancelledError")
DataLossError = _never_raised("DataLossError")
DeadlineExceededError = _never_raised("DeadlineExceededError")
InternalError = _never_raised("InternalError")
PermissionDeniedError = _never_raised("PermissionDeniedError")
ResourceExhaustedError = _never_raised("ResourceExhaustedError")
UnauthenticatedError = _never_raised("UnauthenticatedError")
UnavailableError = _never_raised("UnavailableError")
UnknownError = _never_raised("UnknownError")


check_exports(globals(), __all__)
