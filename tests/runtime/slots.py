"""The slots of a run, for tests that run instructions without a plan."""

import ctypes

from gradtape.compiler.emit.plans.instructions import FIRST, STATUS


class Slots:
    """Slots of arrays, from the first that has no fixed role on, with a status that is zero."""

    def __init__(self, *arrays):
        self.status = ctypes.c_int64(0)
        addresses = [0] * FIRST + [each.ctypes.data for each in arrays]
        addresses[STATUS] = ctypes.addressof(self.status)
        self._words = (ctypes.c_int64 * len(addresses))(*addresses)
        self._arrays = arrays
        self.address = ctypes.addressof(self._words)
