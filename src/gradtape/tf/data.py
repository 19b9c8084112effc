"""Datasets: `tf.data`."""

from gradtape.tf.programs import datasets as _datasets
from gradtape.tf.programs.datasets import *

__all__: list[str] = []
__all__ += _datasets.__all__
