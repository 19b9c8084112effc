"""Datasets: `tf.data`."""

from gradtape.tf.base.suggestions import attribute_finder
from gradtape.tf.programs import datasets as _datasets
from gradtape.tf.programs.datasets import *

__all__: list[str] = []
__all__ += _datasets.__all__

__getattr__ = attribute_finder(__name__, globals())
