"""Storage: trees of tensors, modules and other state as files, and back.

Users call `gt.save`, `gt.load` and `gt.Checkpointer`; `register` names the classes and functions of
a user that `gt.load` may make again. Other packages import `registry`, to register their classes,
`weights`, for `save_weights` and `load_weights`, and `save_load`.

>>> import tempfile, os
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "state.npz")
...     gt.save({"w": gt.asarray([1.0, 2.0]), "step": 7}, path)
...     gt.load(path)
{'w': Tensor([1., 2.], shape=(2,), dtype=float64), 'step': 7}
"""

from gradtape.argument_checks import check_exports as _check_exports
from gradtape.training.storage.registry import register
from gradtape.training.storage.weights import WeightsReport

__all__ = ["WeightsReport", "register"]


_check_exports(globals(), __all__)
