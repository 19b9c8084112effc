"""Names of other versions of TensorFlow: `tf.compat.v1`."""

from gradtape.tf.base.suggestions import attribute_finder
from gradtape.tf.compat import v1

__all__ = ["v1"]

__getattr__ = attribute_finder(__name__, globals())
