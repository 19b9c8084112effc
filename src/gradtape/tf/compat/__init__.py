"""Names of other versions of TensorFlow: `tf.compat.v1`."""

from gradtape.tf.compat import v1
from gradtape.tf.suggestions import attribute_finder

__all__ = ["v1"]

__getattr__ = attribute_finder(__name__, globals())
