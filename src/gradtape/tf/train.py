"""Checkpoints, and the optimizers of TensorFlow 1: `tf.train`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.programs import checkpoints as _checkpoints
from gradtape.tf.programs.checkpoints import *
from gradtape.tf.v1 import train as _train
from gradtape.tf.v1.train import *

__all__: list[str] = []
__all__ += _checkpoints.__all__
__all__ += _train.__all__


_check_exports(globals(), __all__)
