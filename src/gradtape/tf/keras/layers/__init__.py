"""Layers: `tf.keras.layers`.

Public interface: the classes that are listed in `__all__`.
"""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.keras.functional import Input
from gradtape.tf.keras.layers import (
    convolutional as _convolutional,
    core as _core,
    merging as _merging,
    recurrent as _recurrent,
)
from gradtape.tf.keras.layers.base import InputLayer, Layer
from gradtape.tf.keras.layers.convolutional import *
from gradtape.tf.keras.layers.core import *
from gradtape.tf.keras.layers.merging import *
from gradtape.tf.keras.layers.normalization import BatchNormalization, LayerNormalization
from gradtape.tf.keras.layers.recurrent import *
from gradtape.tf.keras.layers.wrappers import Bidirectional, Masking, TimeDistributed

__all__ = [
    "BatchNormalization",
    "Bidirectional",
    "Input",
    "InputLayer",
    "Layer",
    "LayerNormalization",
    "Masking",
    "TimeDistributed",
]
__all__ += _convolutional.__all__
__all__ += _core.__all__
__all__ += _merging.__all__
__all__ += _recurrent.__all__


_check_exports(globals(), __all__)
