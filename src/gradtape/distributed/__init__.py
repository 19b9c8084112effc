"""Distributed: the same programs on many processes and machines, with Ray or any executor.

Users call `map`, `jacobian`, `hessian` and `data_parallel`. No other package imports this one. Ray
is an extra (`pip install "gradtape[ray]"`); `map`, `jacobian` and `hessian` also take any executor
of `concurrent.futures`.

>>> from concurrent.futures import ThreadPoolExecutor
>>> with ThreadPoolExecutor(2) as threads:
...     list(gt.distributed.map(lambda x: x * x, range(5), executor=threads))
[0, 1, 4, 9, 16]
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gradtape.distributed.derivative_blocks import Blocks, hessian, jacobian
from gradtape.distributed.mapping import Results, map
from gradtape.distributed.report import Report
from gradtape.distributed.training import DataParallel, data_parallel
from gradtape.libraries import check_exports as _check_exports, namespace as _namespace

__all__ = [
    "Blocks",
    "DataParallel",
    "Report",
    "Results",
    "data_parallel",
    "hessian",
    "jacobian",
    "map",
]

_check_exports(globals(), __all__)

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
