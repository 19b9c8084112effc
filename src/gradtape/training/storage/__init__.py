"""Storage: trees of tensors, modules and other state as files, and back.

Users call `gt.save`, `gt.load` and `gt.Checkpointer`; `register` names the classes and functions of
a user that `gt.load` may make again. Libraries name theirs with `register_library`, give a `Codec`
to a family of classes, and save variables by name with `save_weights`.

>>> import tempfile, os
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "state.npz")
...     gt.save({"w": gt.asarray([1.0, 2.0]), "step": 7}, path)
...     gt.load(path)
{'w': Tensor([1., 2.], shape=(2,), dtype=float64), 'step': 7}
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gradtape.libraries import check_exports as _check_exports, namespace as _namespace
from gradtape.training.storage.encode import MadeFunction, VariableOwner
from gradtape.training.storage.registry import (
    Change,
    Codec,
    register,
    register_family,
    register_library,
    take_attributes,
)
from gradtape.training.storage.weights import (
    WeightsReport,
    load_state,
    load_weights,
    save_weights,
    state_of,
)

__all__ = [
    "Change",
    "Codec",
    "MadeFunction",
    "VariableOwner",
    "WeightsReport",
    "load_state",
    "load_weights",
    "register",
    "register_family",
    "register_library",
    "save_weights",
    "state_of",
    "take_attributes",
]


_check_exports(globals(), __all__)

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
