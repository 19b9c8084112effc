"""Colour chunks: the products of a sparse derivative with the seeds of some colours at a time.

The products with all colours take (colours x size) numbers, of which the matrix needs its entries
only. Past a memory budget one plan computes the products with `count` colours, from number `offset`
on, and the entries are picked from each chunk before the next one runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gradtape.autodiff.chunks import PROBE, Limits, frontier
from gradtape.autodiff.seeded import Seeded, numbered
from gradtape.autodiff.sparse.colouring import Colours
from gradtape.dtypes import Array, DType
from gradtape.ir import Node, placeholder, spec
from gradtape.ir.program import program
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.elementwise.arithmetic import equal
from gradtape.ops.families.casting import cast
from gradtape.progress import Progress
from gradtape.records import dataclass
from gradtape.runtime.bound_plans import BoundPlan, bind
from gradtape.runtime.footprint import intermediate_bytes, total_bytes
from gradtape.trace import Recording, Value

# The products of a derivative with a batch of so many seeds; None if nothing connects the two.
Product = Callable[[Seeded, int], Node | None]


@dataclass(frozen=True)
class ColourSeeds:
    """The seeds of one mode: seed number k is 1 at the elements of colour k."""

    like: Node
    colours: Colours
    product: Product
    # The input that the plan reads the colour of each element from.
    chosen: Node

    @classmethod
    def of(cls, like: Node, colours: Colours, product: Product) -> ColourSeeds:
        chosen = placeholder(spec(like.shape, numbered(0, 1).dtype))
        return cls(like, colours, product, chosen)

    def value(self) -> Value:
        """The colour of each element."""
        of = self.chosen.spec
        return Value(np.ascontiguousarray(self.colours.of, of.dtype).reshape(of.shape), of)

    def products(self, count: int, offset: Node | None = None) -> Node | None:
        """The products with the seeds of `count` colours along a new axis 0."""
        numbers = numbered(0, count) if offset is None else numbered(0, count) + offset
        # Comparing costs less than reading seeds.
        column = reshape_node(numbers, (count, *(1,) * self.like.ndim))
        start = Seeded(cast(equal(self.chosen, column), self.like.dtype), (0,), ())
        return self.product(start, count)


@dataclass(frozen=True)
class ColourChunks:
    """The plan of one mode for `count` colours at a time; `before` computes the forward pass."""

    seeds: ColourSeeds
    count: int
    offset: Node
    before: BoundPlan
    bound: BoundPlan

    def pick(
        self, recording: Recording, places: Array, result: Array, begin: int, title: str
    ) -> int:
        """Write the entries at these places of the products to the result; gives where they end.

        `begin` is the place at which the products of this mode begin. Progress is shown under the
        title.
        """
        given = {self.seeds.chosen: self.seeds.value()}
        contents = self.before.contents(recording, given)
        pairs = zip(self.before.outputs, contents, strict=True)
        given.update((node, Value(content, node.spec)) for node, content in pairs)
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        width = self.bound.outputs[0].size // self.count
        total = self.seeds.colours.count
        with Progress(title, total) as progress:
            for start in range(0, total, self.count):
                # The last chunk ends with the last colour, and may compute some again.
                first = min(start, total - self.count)
                low = begin + first * width
                ends = np.searchsorted(ordered, [low, low + self.count * width])
                chosen = order[ends[0] : ends[1]]
                if len(chosen):
                    (part,) = self.bound.arrays(recording, {**given, self.offset: first})
                    result[chosen] = part.reshape(-1).take(places[chosen] - low)
                progress.update(first + self.count)
        return begin + total * width


def entries_by_chunks(
    chunks: Sequence[ColourChunks],
    recording: Recording,
    places: Array,
    dtype: DType,
    title: str = "jacobian",
) -> Array:
    """The entries at places in the products of all chunks laid end to end."""
    result = np.empty(len(places), dtype)
    begin = 0
    for one in chunks:
        begin = one.pick(recording, places, result, begin, title)
    return result


def colour_chunks(
    recording: Recording, seeds: Sequence[ColourSeeds], outputs: Sequence[Node], wanted: Limits
) -> tuple[ColourChunks, ...]:
    """The plans that compute `outputs` in chunks; none if all of it fits the budget at once."""
    most = max((one.colours.count for one in seeds), default=0)
    if most <= (wanted.chunk_size or 1):
        return ()
    if wanted.chunk_size is None:
        steps = program(outputs, recording.values.keys())
        results = sum(node.spec.nbytes for node in outputs)
        # The first number is quick to find, and larger than the second.
        if results + total_bytes(steps) <= wanted.budget:
            return ()
        if results + intermediate_bytes(steps) <= wanted.budget:
            return ()
    return tuple(_chunks(recording, one, wanted) for one in seeds)


def _chunks(recording: Recording, seeds: ColourSeeds, wanted: Limits) -> ColourChunks:
    count = wanted.chunk_size
    if count is None:
        tried = min(PROBE, seeds.colours.count)
        found = _part(recording, seeds, tried, wanted)
        one = intermediate_bytes(found.bound.plan.program) + found.bound.outputs[0].spec.nbytes
        count = wanted.budget * tried // max(1, one)
    return _part(recording, seeds, max(1, min(count, seeds.colours.count)), wanted)


def _part(recording: Recording, seeds: ColourSeeds, count: int, wanted: Limits) -> ColourChunks:
    offset = placeholder(spec((), numbered(0, 1).dtype))
    found = seeds.products(count, offset)
    assert found is not None  # the products with all colours exist
    steps = program([found], recording.values.keys())
    before = [
        node
        for node in frontier(recording, steps, offset, wanted.budget)
        if type(node.spec) is not tuple
    ]
    return ColourChunks(
        seeds, count, offset, bind(recording, before), bind(recording, [found], before)
    )
