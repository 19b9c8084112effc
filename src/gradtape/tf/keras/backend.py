"""What is left of Keras' backend: `tf.keras.backend`."""

from __future__ import annotations

from gradtape.libraries import check_exports
from gradtape.tf.keras.layers.base import _counts

__all__ = ["clear_session", "epsilon", "floatx", "get_uid", "image_data_format"]

_uids: dict[str, int] = {}


def epsilon() -> float:
    """A small number.

    >>> tf.keras.backend.epsilon()
    1e-07
    """
    return 1e-7


def floatx() -> str:
    """The dtype of layers, if nobody tells them another.

    >>> tf.keras.backend.floatx()
    'float32'
    """
    return "float32"


def image_data_format() -> str:
    """Where images have their channels.

    >>> tf.keras.backend.image_data_format()
    'channels_last'
    """
    return "channels_last"


def clear_session(free_memory: bool = True) -> None:
    """Count the names of layers from the beginning again.

    >>> tf.keras.backend.clear_session()
    """
    _counts.clear()
    _uids.clear()


def get_uid(prefix: str = "") -> int:
    """A number that counts up for each prefix.

    >>> tf.keras.backend.get_uid("a") < tf.keras.backend.get_uid("a")
    True
    """
    _uids[prefix] = _uids.get(prefix, 0) + 1
    return _uids[prefix]


check_exports(globals(), __all__)
