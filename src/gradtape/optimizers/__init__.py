"""Optimisers: how gradients change variables, with Keras' names, arguments and formulas.

A step is recorded as tensor code like everything else, so the update of every variable runs in the
same plan as the loss and its gradient. Learning rate and step count are values, not structure: a
schedule or a new learning rate compiles nothing.

>>> w = gt.Variable([1.0, 2.0])
>>> optimizer = gt.optimizers.SGD(learning_rate=0.1)
>>> for _ in range(100):
...     loss = optimizer.minimize(lambda: gt.sum(w * w), [w])
>>> bool(loss < 1e-6)
True
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gradtape import storage as _storage
from gradtape.libraries import check_exports as _check_exports, namespace as _namespace
from gradtape.optimizers import (
    saved_optimizer as _saved_optimizer,  # noqa: F401  # it registers
    schedules,
)
from gradtape.optimizers.clipping import Clipping as _Clipping
from gradtape.optimizers.optimizer import Optimizer
from gradtape.optimizers.updates import SGD, Adagrad, Adam, AdamW, RMSprop

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "schedules"]


_storage.register_library(
    "gradtape.optimizers",
    {
        **{_name: globals()[_name] for _name in __all__ if _name != "schedules"},
        **{f"schedules.{_name}": _kind for _name, _kind in schedules.SCHEDULES.items()},
        "Clipping": _Clipping,
    },
)


_check_exports(globals(), __all__)

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
