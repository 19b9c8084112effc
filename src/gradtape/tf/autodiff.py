"""Forward mode and the tape: `tf.autodiff`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.programs.tape import ForwardAccumulator, GradientTape

__all__ = ["ForwardAccumulator", "GradientTape"]


_check_exports(globals(), __all__)
