"""Units: what a fused program consists of: loops, routines and library calls."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from gradtape.compiler.passes.routine_op import body_of
from gradtape.ir import Node, Shape
from gradtape.ops.families.memory_copies import Piece
from gradtape.ops.families.strides import Access
from gradtape.records import dataclass


@dataclass
class LoopContent:
    """The computation of a loop at each point: found by lowering it, and the same at all sizes."""

    # Nodes read from memory, and the number of the operand that each is.
    reads: list[Node]
    numbers: list[int]
    body: tuple[Any, ...]
    # Values, by number, with the nodes that they are stored or reduced to.
    stores: list[tuple[int, Node]]
    reductions: list[tuple[int, Node]]
    # Kernels that were made of it, for `codegen`.
    kernels: list[Any] = field(default_factory=list)


@dataclass
class FusedLoop:
    """Nodes computed point by point over one space; reductions in it share their axes."""

    space: Shape
    axes: tuple[int, ...] | None = None
    nodes: list[Node] = field(default_factory=list)
    # Nodes that are copies of a view which strides cannot express, in their own shape.
    copies: set[Node] = field(default_factory=set)
    outputs: list[Node] = field(default_factory=list)
    # Nodes whose value at a point is known inside the loop: not reductions, not copies.
    pointwise: set[Node] = field(default_factory=set)
    # The copies that a movement is made of; like a scan, it is alone in its loop.
    pieces: list[Piece] | None = None
    alone: bool = False
    content: LoopContent | None = None


@dataclass
class Call:
    """One node that runs as a library call."""

    node: Node


@dataclass
class Registers:
    """A routine that register code computes, and its results, which are in memory."""

    routine: Node
    outputs: list[Node] = field(default_factory=list)


Unit = FusedLoop | Call | Registers


@dataclass
class Fused:
    """A program as units, and where each value lies that is read from memory."""

    units: list[Unit]
    access: dict[Node, Access]
    constants: set[Node]


def nodes_of(unit: Unit) -> list[Node]:
    """The nodes of the program that a unit computes."""
    if isinstance(unit, Registers):
        return [unit.routine, *unit.outputs]
    return [unit.node] if isinstance(unit, Call) else unit.nodes


def inner_nodes(unit: Unit) -> list[Node]:
    """The ops that a unit consists of; those of routines are inside their bodies."""
    if isinstance(unit, Registers):
        return list(body_of(unit.routine).nodes)
    return nodes_of(unit)
