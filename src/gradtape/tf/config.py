"""Switches and devices: `tf.config`."""

from __future__ import annotations

from typing import NamedTuple

from gradtape.compiler.thread_team import get_num_threads, set_num_threads
from gradtape.libraries import check_exports as _check_exports, described
from gradtape.tf.programs.function import Switch
from gradtape.typing import Count

__all__ = [
    "PhysicalDevice",
    "experimental",
    "functions_run_eagerly",
    "get_visible_devices",
    "list_logical_devices",
    "list_physical_devices",
    "run_functions_eagerly",
    "threading",
]


@described(name="The name of the device.", device_type="Its type: `CPU`.")
class PhysicalDevice(NamedTuple):
    """A device: there is one, the CPU.

    >>> tf.config.list_physical_devices()[0].device_type
    'CPU'
    """

    name: str
    device_type: str


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of a type.

    >>> tf.config.list_physical_devices("GPU")
    []
    """
    cpu = PhysicalDevice("/physical_device:CPU:0", "CPU")
    return [cpu] if device_type in (None, "CPU") else []


def list_logical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of a type.

    >>> len(tf.config.list_logical_devices("CPU"))
    1
    """
    return list_physical_devices(device_type)


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of a type.

    >>> len(tf.config.get_visible_devices())
    1
    """
    return list_physical_devices(device_type)


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Choose whether `tf.function` leaves functions as they are.

    >>> tf.config.run_functions_eagerly(True)
    >>> tf.config.functions_run_eagerly()
    True
    >>> tf.config.run_functions_eagerly(False)
    """
    Switch.eagerly = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Whether `tf.function` leaves functions as they are.

    >>> tf.config.functions_run_eagerly()
    False
    """
    return Switch.eagerly


class threading:  # noqa: N801 - TensorFlow's name
    """The numbers of threads.

    >>> tf.config.threading.get_intra_op_parallelism_threads() >= 1
    True
    """

    @staticmethod
    def get_intra_op_parallelism_threads() -> int:
        """The number of threads of one op."""
        return get_num_threads()

    @staticmethod
    def set_intra_op_parallelism_threads(num_threads: Count) -> None:
        """Choose how many threads compute one op; 0 keeps the default."""
        if num_threads:
            set_num_threads(num_threads)

    @staticmethod
    def get_inter_op_parallelism_threads() -> int:
        """The number of ops that run side by side: one."""
        return 1

    @staticmethod
    def set_inter_op_parallelism_threads(num_threads: Count) -> None:
        """Accepted, and without effect."""


class experimental:  # noqa: N801 - TensorFlow's name
    """Settings of GPUs: accepted, and without effect.

    >>> tf.config.experimental.set_memory_growth(None, True)
    """

    @staticmethod
    def set_memory_growth(device: object, enable: bool) -> None:
        """Accepted, and without effect: there is no GPU."""

    list_physical_devices = staticmethod(list_physical_devices)


_check_exports(globals(), __all__)
