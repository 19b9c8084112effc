"""Names of other versions of TensorFlow: `tf.compat`.

Other packages import only v1, the namespace `tf.compat.v1`; its content is in tf/v1.
"""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.compat import v1

__all__ = ["v1"]


_check_exports(globals(), __all__)
