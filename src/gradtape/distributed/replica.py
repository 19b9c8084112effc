"""Replica: the actor of one worker of data-parallel training, with a model and an optimiser.

All replicas have equal state. A step is three calls: gradients of some shards, sums of some
buckets, and the update. A replica counts its steps, and refuses an update for any other.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape import GradientTape, RowSparse, Tensor, Variable, asarray, counters, set_num_threads
from gradtape.distributed import functions_sent, gradient_parts, pairwise, random_streams
from gradtape.distributed.functions_sent import Sent
from gradtape.distributed.gradient_parts import GradientLayout
from gradtape.distributed.report import cost_since
from gradtape.distributed.shards import Shard
from gradtape.distributed.tasks import install_kernels
from gradtape.export import ExportedProgram, exported
from gradtape.libraries import compiled_first
from gradtape.pytree import unflatten

# The position of a replica that has no state yet.
UNKNOWN = -1


class StaleStepError(RuntimeError):
    """An update for another step than the replica's next one."""


def state_variables(model: Any, optimizer: Any) -> list[Variable]:
    """All variables of the state, in an order that model and optimiser determine."""
    found = [variable for _, variable in model.named_variables()]
    for variable in model.parameters():
        found += optimizer.slots_of(variable)
    seen = {variable.number for variable in found}
    return found + [v for _, v in optimizer.named_variables() if v.number not in seen]


def values_of(variables: Sequence[Variable]) -> list[np.ndarray]:
    """Copies of the values of variables."""
    return [np.array(variable.numpy()) for variable in variables]


def assign(variables: Sequence[Variable], arrays: Sequence[np.ndarray]) -> None:
    """Give variables values: copies, because arrays of the object store are shared."""
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(np.array(array))


def averaged(model: Any) -> list[Variable]:
    """The variables that are not trained, and averaged over shards: moving means and the like."""
    return [v for v in model.non_trainable_variables if v.dtype.kind in "fc"]


def counted(model: Any) -> list[Variable]:
    """The variables that a loss must leave alone, because they have no average."""
    return [v for v in model.non_trainable_variables if v.dtype.kind not in "fc"]


def gradients_of(
    loss: Callable[..., Any], model: Any, batch: Sequence[Any]
) -> tuple[Tensor, list[Any]]:
    """The loss of a batch, and its gradients by the parameters."""
    with GradientTape() as tape:
        value = asarray(loss(model, *batch))
    if value.shape != ():
        raise ValueError(
            f"data_parallel: the loss has shape {value.shape}, not (). Average it over the batch."
        )
    return value, list(tape.gradient(value, model.parameters(), unconnected_gradients="none"))


def gradient_program(
    loss: Callable[..., Any], model: Any, batch: Sequence[np.ndarray]
) -> ExportedProgram:
    """The program for batches like this one. Raises NotExportableError where there is none.

    It gives the loss, the gradients of the parameters (None, an array, or indices and values) and
    the new values of the variables that are averaged.
    """
    buffers = averaged(model)

    def step(*batch: Any) -> tuple[Any, ...]:
        value, gradients = gradients_of(loss, model, batch)
        parts = [(g.indices, g.values) if isinstance(g, RowSparse) else g for g in gradients]
        return value, parts, [buffer.value for buffer in buffers]

    return exported(step, *batch, variables=model.variables, assigned=buffers).compile()


def row_sparse_in(program: ExportedProgram) -> list[int]:
    """The parameters whose gradients are row-sparse in the results of a program."""
    _, gradients, _ = unflatten(program.result, range(program.result.count))
    return [at for at, gradient in enumerate(gradients) if isinstance(gradient, tuple)]


class Replica:
    """The state of training in one worker."""

    def __init__(self, seed: int, threads: int) -> None:
        # Nothing large is passed here: Ray calls it again when it restarts a worker.
        set_num_threads(threads)
        self._seed = seed
        self._data: Any = None
        self._model: Any = None
        self._programs: dict[Any, ExportedProgram] = {}
        self._layout: GradientLayout | None = None
        self.position = UNKNOWN
        self._last_loss = 0.0

    def _equip(self, sent: Sent, data: Any) -> None:
        """Unpack loss, model and optimiser, if this was not done yet."""
        if self._model is None:
            self._loss, self._model, self._optimizer = functions_sent.unpacked(sent)
            self._data = data

    # State.

    def where(self) -> tuple[int, float, int]:
        """The steps taken, the loss of the last one, and the process."""
        return self.position, self._last_loss, os.getpid()

    def load(
        self,
        position: int,
        layout: GradientLayout,
        arrays: Sequence[np.ndarray],
        loss: float,
        sent: Sent,
        data: Any,
    ) -> None:
        """Take over a state."""
        self._equip(sent, data)
        variables = self._variables()
        if len(variables) != len(arrays):
            raise RuntimeError(
                f"data_parallel: {len(arrays)} arrays for {len(variables)} variables."
            )
        assign(variables, arrays)
        self.position, self._layout, self._last_loss = position, layout, loss

    def state(self) -> list[np.ndarray]:
        """The values of all variables of the state."""
        return values_of(self._variables())

    def checksum(self) -> str:
        """A digest of the state, equal in all replicas."""
        digest = hashlib.sha256()
        for variable in self._variables():
            digest.update(np.ascontiguousarray(variable.numpy()).tobytes())
        return digest.hexdigest()

    def _variables(self) -> list[Variable]:
        return state_variables(self._model, self._optimizer)

    def row_sparse(self, content: Any, sent: Sent, data: Any) -> list[int]:
        """The parameters whose gradients are row-sparse; the state stays as it is."""
        self._equip(sent, data)
        before = self.state()
        random_streams.begin(self._seed, (0, 0))
        _, found = gradients_of(self._loss, self._model, self._batch(content))
        rows = [at for at, gradient in enumerate(found) if isinstance(gradient, RowSparse)]
        assign(self._variables(), before)
        return rows

    # A step.

    def _batch(self, content: Any) -> Sequence[Any]:
        if self._data is None:
            found: Sequence[Any] = content
            return found
        return [part[content] for part in self._data]

    def gradients(
        self, step: int, shards: Sequence[Shard], count: int, program: Any, kernels: Any
    ) -> list[Any]:
        """Cost and losses; rows; and for each bucket the sums over the shards of this replica."""
        if step != self.position:
            raise StaleStepError(f"step {step} requested of a replica at {self.position}")
        assert self._layout is not None
        before, start = counters(), time.perf_counter()
        traced = 0
        flat: dict[int, list[np.ndarray]] = {}
        rows: gradient_parts.RowParts = {number: [] for number in self._layout.rows}
        losses: dict[int, float] = {}
        present: set[int] = set()
        for shard in shards:
            with compiled_first():
                known = self._known(program, shard, kernels)
                if known is None:
                    traced += 1
                    value, arrays, sparse = self._in_python(step, shard)
                else:
                    value, arrays, sparse = self._by_program(known, shard)
            losses[shard.number] = value * shard.weight
            flat[shard.number] = self._layout.flat(arrays, shard.weight)
            present.update(at for at, array in enumerate(arrays) if array is not None)
            for number, (indices, values) in sparse.items():
                present.add(number)
                scaled = values * values.dtype.type(shard.weight)
                rows[number].append((shard.number, *gradient_parts.merged_rows(indices, scaled)))
        pieces = gradient_parts.partial_sums(flat, count)
        moved = sum(part.nbytes for each in pieces for part in each.values())
        moved += sum(v.nbytes for each in rows.values() for _, _, v in each)
        cost = cost_since(
            before, time.perf_counter() - start, traced=traced, bytes_out=moved, pid=os.getpid()
        )
        return [cost, (losses, present, rows), *pieces]

    def _known(self, program: Any, shard: Shard, kernels: Any) -> ExportedProgram | None:
        """The program for the shapes of a shard; fetched once."""
        if program is None:
            return None
        shapes = tuple((part.shape, part.dtype.name) for part in self._batch(shard.content))
        if shapes not in program:
            return None
        if shapes not in self._programs:
            import ray  # this runs in a worker of Ray

            if kernels is not None:
                install_kernels(kernels[0], ray.get(kernels[1][0]))
            self._programs[shapes] = ray.get(program[shapes])
        return self._programs[shapes]

    def _rows(self, at: int, indices: np.ndarray, values: np.ndarray) -> Any:
        """Indices as a vector, and one row of the parameter for each."""
        shape = self._model.parameters()[at].shape[1:]
        return indices.reshape(-1), values.reshape(indices.size, *shape)

    def _in_python(self, step: int, shard: Shard) -> tuple[float, list[Any], dict[int, Any]]:
        """Loss, dense arrays and row-sparse ones of a shard, by the user's own function."""
        buffers, counts = averaged(self._model), counted(self._model)
        before, counted_before = values_of(buffers), values_of(counts)
        random_streams.begin(self._seed, (step, shard.number))
        value, found = gradients_of(self._loss, self._model, self._batch(shard.content))
        arrays: list[Any] = [None] * len(found)
        sparse: dict[int, Any] = {}
        assert self._layout is not None
        for at, gradient in enumerate(found):
            if gradient is None:
                continue
            if at not in self._layout.rows:
                arrays[at] = np.array(gradient.numpy())
                continue
            # One that was row-sparse in the first step and is not now has all its rows.
            whole = not isinstance(gradient, RowSparse)
            indices = np.arange(gradient.shape[0]) if whole else gradient.indices.numpy()
            values = gradient.numpy() if whole else gradient.values.numpy()
            sparse[at] = self._rows(at, indices, values)
        arrays += values_of(buffers)
        number = float(value)
        for variable, was in zip(counts, counted_before, strict=True):
            if not np.array_equal(variable.numpy(), was):
                raise ValueError(
                    f"data_parallel: the loss assigns {variable.name} of dtype {variable.dtype}, "
                    "which cannot be averaged over shards. Count in the optimizer or the driver."
                )
        # The next shard starts from the same averages.
        assign(buffers, before)
        return number, arrays, sparse

    def _by_program(
        self, program: ExportedProgram, shard: Shard
    ) -> tuple[float, list[Any], dict[int, Any]]:
        values = [variable.numpy() for variable in self._model.variables]
        loss, gradients, buffers = program(*self._batch(shard.content), variables=values)
        rows = {at: each for at, each in enumerate(gradients) if isinstance(each, tuple)}
        arrays = [None if at in rows else each for at, each in enumerate(gradients)]
        sparse = {at: self._rows(at, *each) for at, each in rows.items()}
        return float(loss), [*arrays, *buffers], sparse

    def reduce(self, count: int, *pieces: Any) -> np.ndarray:
        """The sum of one bucket over all shards."""
        return gradient_parts.whole(pieces, count)

    def alone(
        self, step: int, shards: Sequence[Shard], count: int, program: Any, kernels: Any
    ) -> Any:
        """A step of the only replica, in one call: cost, and what `apply` returns."""
        cost, *parts = self.gradients(step, shards, count, program, kernels)
        return cost, self.apply(step, count, len(parts) - 1, True, *parts)

    def apply(self, step: int, count: int, buckets: int, gathered: bool, *parts: Any) -> Any:
        """Take the step: from the notes of all workers, then sums or pieces of every bucket."""
        if step != self.position:
            raise StaleStepError(f"update {step} requested of a replica at {self.position}")
        assert self._layout is not None
        start = time.perf_counter()
        workers = (len(parts) // (1 + buckets)) if gathered else len(parts) - buckets
        notes, rest = parts[:workers], parts[workers:]
        if gathered:
            by_bucket = [rest[at * workers : (at + 1) * workers] for at in range(buckets)]
            sums = [gradient_parts.whole(pieces, count) for pieces in by_bucket]
        else:
            sums = list(rest)
        losses = {(n, n + 1): value for found, _, _ in notes for n, value in found.items()}
        loss = pairwise.total((0, count), losses, lambda a, b: a + b)
        present = set().union(*(found for _, found, _ in notes))
        rows = gradient_parts.joined_rows([found for _, _, found in notes])
        self._update(self._layout.arrays(sums), rows, present)
        self.position, self._last_loss = step + 1, loss
        return loss, time.perf_counter() - start

    def _update(
        self, dense: dict[int, np.ndarray], rows: dict[int, Any], present: set[int]
    ) -> None:
        parameters = self._model.parameters()
        gradients: list[Any] = []
        for at, variable in enumerate(parameters):
            if at not in present:
                gradients.append(None)
            elif at in rows:
                indices, values = (asarray(part) for part in rows[at])
                gradients.append(RowSparse(indices, values, variable.value.spec))
            else:
                gradients.append(asarray(dense[at]))
        with compiled_first():
            self._optimizer.apply(gradients, parameters)
            for at, buffer in enumerate(averaged(self._model), len(parameters)):
                buffer.assign(dense[at])
            # Computed now, so that the time of the step is that of this call.
            for variable in self._variables():
                variable.numpy()
