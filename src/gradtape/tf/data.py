"""Datasets: `tf.data`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.programs import datasets as _datasets
from gradtape.tf.programs.datasets import *

__all__: list[str] = []
__all__ += _datasets.__all__


_check_exports(globals(), __all__)
