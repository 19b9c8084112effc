"""Types of the rules by which an Op declares how it is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gradtape.dtypes import DType

if TYPE_CHECKING:
    # The arguments of rules are types of the compiler, which is loaded at the first compile.
    from gradtape.compiler.emit.builder import Builder as Builder
    from gradtape.compiler.emit.math.vectors import Body as Body, VectorValue as VectorValue


class Vector(NamedTuple):
    """The IR name of one value, with one element of `dtype` per lane.

    A complex value has two names: its real parts, and its imaginary parts. It is a tuple because
    one is made for every instruction, and a tuple is made quickly.
    """

    name: str
    dtype: DType
    imaginary: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """All IR names that make up the value."""
        return (self.name, self.imaginary) if self.imaginary else (self.name,)


LlvmRule = Callable[..., Vector]
