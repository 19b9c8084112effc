"""Export: a function traced once, as plain data that another process runs without its Python.

`exported` makes an `ExportedProgram`, which can be pickled; `kernel_files` and
`install_kernel_files` carry compiled kernels to machines that do not share the cache on disk.

>>> import pickle
>>> sent = pickle.dumps(gt.export.exported(lambda x: gt.sin(x) * 2.0, np.zeros(3)))
>>> pickle.loads(sent)(np.zeros(3)).tolist()
[0.0, 0.0, 0.0]
"""

from gradtape.argument_checks import check_exports as _check_exports
from gradtape.export.kernel_files import install_kernel_files, kernel_files
from gradtape.export.programs import ExportedProgram, NotExportableError, exported

__all__ = [
    "ExportedProgram",
    "NotExportableError",
    "exported",
    "install_kernel_files",
    "kernel_files",
]


_check_exports(globals(), __all__)
