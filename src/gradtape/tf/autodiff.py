"""Forward mode and the tape: `tf.autodiff`."""

from gradtape.tf.programs.tape import ForwardAccumulator, GradientTape

__all__ = ["ForwardAccumulator", "GradientTape"]
