"""Training: a small driver that calls a user's own step on batches.

The public interface is `gt.fit`; `Batches` cuts arrays into batches for loops of one's own,
`EarlyStopping` says when to stop, and `History` is what `gt.fit` returns. No other package imports
this one.

>>> batches = gt.training.Batches(np.arange(6.0), batch_size=4)
>>> [batch.tolist() for batch in batches]
[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0]]
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gradtape.libraries import check_exports as _check_exports, namespace as _namespace
from gradtape.training.batches import Batches
from gradtape.training.early_stopping import EarlyStopping
from gradtape.training.history import History

__all__ = ["Batches", "EarlyStopping", "History"]


_check_exports(globals(), __all__)

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
