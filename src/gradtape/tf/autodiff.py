"""Forward mode and the tape: `tf.autodiff`."""

from gradtape.tf.base.suggestions import attribute_finder
from gradtape.tf.programs.tape import ForwardAccumulator, GradientTape

__all__ = ["ForwardAccumulator", "GradientTape"]

__getattr__ = attribute_finder(__name__, globals())
