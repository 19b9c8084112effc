"""The params of a scan in one record: its body, how its operands are grouped, and how it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gradtape.ir import Node, Program, Spec, spec
from gradtape.records import dataclass

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Scan:
    """The params of a scan, in the order in which its op has them.

    | group | operands of the op | inputs of the body | outputs of the body | results of the op |
    |---|---|---|---|---|
    | constants | each | the same in every step | – | – |
    | carries | initial values | values carried so far | next values | final values |
    | sequences, results | each | one element of each | one element of each | stacked elements |
    """

    body: Program
    # The number of constants, of carried values and of steps.
    constants: int
    carries: int
    length: int
    # Whether steps go from the last element to the first.
    reverse: bool
    # Whether the backward pass recomputes values instead of saving residuals.
    recompute: bool

    @classmethod
    def of(cls, node: Node) -> Scan:
        """The params of a node that scans."""
        return cls(*node.params)

    @property
    def params(self) -> tuple[Program, int, int, int, bool, bool]:
        """The fields as the params of a node."""
        return self.body, self.constants, self.carries, self.length, self.reverse, self.recompute

    @property
    def first(self) -> int:
        """The position of the first sequence among the operands."""
        return self.constants + self.carries

    def parts(
        self, items: Sequence[_Item]
    ) -> tuple[Sequence[_Item], Sequence[_Item], Sequence[_Item]]:
        """Split items, one for each operand, into constants, carried values and sequences."""
        return items[: self.constants], items[self.constants : self.first], items[self.first :]

    def specs(self, of_body: Sequence[Node]) -> list[Spec]:
        """The specs of the operands, from the inputs of the body."""
        rows = [spec((self.length, *of.shape), of.dtype) for of in of_body[self.first :]]
        return [*[node.spec for node in of_body[: self.first]], *rows]

    def positions(self) -> range:
        """The positions of elements in the order of steps."""
        return range(self.length)[:: -1 if self.reverse else 1]


PARAMS = tuple(Scan.__annotations__)
