"""Data-parallel training: one model on many workers, each with some shards of every batch.

Every worker holds the whole state and takes every step itself, from the average of the gradients of
all shards. The shards are summed in a fixed order (`pairwise`), and each has its own random stream,
so the result depends on the number of shards, and not on the number of workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from gradtape import Checkpointer
from gradtape.config import GATHERED_GRADIENT_BYTES, GRADIENT_BUCKET_BYTES, WORKER_START_SECONDS
from gradtape.distributed import (
    functions_sent,
    random_streams,
    ray_cluster,
    ray_tasks,
)
from gradtape.distributed.gradient_parts import GradientLayout
from gradtape.distributed.replica import (
    UNKNOWN,
    Replica,
    StaleStepError,
    assign,
    averaged,
    gradient_program,
    row_sparse_in,
    state_variables,
    values_of,
)
from gradtape.distributed.report import RayMetrics, Report
from gradtape.distributed.shards import Shard, as_array, divided
from gradtape.export import NotExportableError, kernel_files
from gradtape.typing import Count, Size

__all__ = ["DataParallel", "data_parallel"]


class WorkersLostError(RuntimeError):
    """All workers were lost, and with them the state since the last checkpoint."""


def data_parallel(
    loss: Callable[..., Any],
    model: Any,
    optimizer: Any,
    *,
    workers: Size = 2,
    shards: Size | None = None,
    data: Sequence[Any] | None = None,
    checkpoints: Checkpointer | None = None,
    seed: int | None = None,
    threads: Size = 1,
    check_every: Count = 100,
    bucket: Size = GRADIENT_BUCKET_BYTES,
    address: str | None = None,
) -> DataParallel:
    """Train a model on many workers of Ray: `with data_parallel(...) as train: train.step(x, y)`.

    >>> def loss(model, x, y):
    ...     return gt.mean((model(x) - y) ** 2)
    >>> model, optimizer = gt.nn.Dense(1, in_features=3), gt.optimizers.Adam(0.01)
    >>> gt.distributed.data_parallel(loss, model, optimizer, workers=0)
    Traceback (most recent call last):
    ValueError: data_parallel: workers=0 is not a whole number of at least 1. Pass one.

    `loss(model, *batch)` gives the loss of a batch, averaged over its rows. `step` divides a batch
    among workers, averages gradients and takes a step of the optimizer on every worker; at the end
    of the block, or after `sync`, model and optimizer here have the new state.

    | argument | meaning |
    |---|---|
    | workers | how many there are at first; `resize` changes it |
    | shards | parts of a batch, by default as many as workers; with a fixed number the results are equal to the last bit for any number of workers |
    | data | arrays that all workers hold; batches are row numbers then |
    | checkpoints | a `gt.Checkpointer`: a run goes on from its latest one, and writes when due |
    | seed | of the random streams, one for each shard of each step |
    | threads | CPUs of one worker |
    | check_every | steps between two comparisons of the state of all workers; 0 for none |
    | bucket | bytes of gradients that travel as one object |
    | address | a cluster of Ray; without it the current one, or a new one on this machine |

    A worker that dies is replaced: it gets the state of another, and the step is repeated unless it
    was taken. `report` counts that, and `print(train.report)` shows it.
    """  # noqa: E501 - rows of a table
    for name, thing, method in (
        ("model", model, "named_variables"),
        ("optimizer", optimizer, "slots_of"),
    ):
        if not hasattr(thing, method):
            raise TypeError(
                f"data_parallel: {name} is a {type(thing).__name__}. Pass a gt.nn module and an "
                "optimizer of gt.optimizers."
            )
    if not callable(loss):
        raise TypeError("data_parallel: loss is not a function. Pass loss(model, *batch).")
    options = DataParallelOptions(
        workers,
        workers if shards is None else shards,
        data,
        checkpoints,
        random_streams.base_seed(seed),
        threads,
        check_every,
        bucket,
        address,
    )
    return DataParallel(loss, model, optimizer, options)


class DataParallelOptions(NamedTuple):
    """The options of `data_parallel`, checked."""

    workers: int
    shards: int
    data: Sequence[Any] | None
    checkpoints: Checkpointer | None
    seed: int
    threads: int
    check_every: int
    bucket: int
    address: str | None


class DataParallel:
    """Data-parallel training; `data_parallel` makes it. Use it in a `with` block.

    >>> gt.distributed.DataParallel.__name__
    'DataParallel'
    """

    def __init__(
        self, loss: Callable[..., Any], model: Any, optimizer: Any, options: DataParallelOptions
    ) -> None:
        self._loss, self.model, self.optimizer, self._options = loss, model, optimizer, options
        self.shards, self._wanted, self._seed = options.shards, options.workers, options.seed
        # Steps taken so far, those before a checkpoint included.
        self.steps = 0
        self.report = Report("data_parallel")
        self._layout: GradientLayout | None = None
        self._programs: dict[Any, Any] = {}
        self._kernels: Any = None
        if options.checkpoints is not None:
            found = options.checkpoints.restore(into=self._tree())
            if found is not None:
                self.steps, self._seed = found.step, int(found.tree["seed"])
        self._ray = ray_cluster.connect("data_parallel", options.address)
        errors = self._ray.exceptions
        died = (errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError)
        self._errors = (*died, StaleStepError)
        ray_cluster.check_room("data_parallel", self._ray, options.workers, options.threads)
        self._metrics = RayMetrics(self._ray.util.metrics, self.report)
        self._groups: list[Any] = []
        self._replicas: list[Any] = []
        self._data: Any = None
        self._example: list[np.ndarray] | None = None
        if options.data is not None:
            self._example = [as_array(part) for part in options.data]
            self._data = self._ray.put(self._example)
        self._sent: Any = None
        self._equipment: tuple[Any, ...] = ()

    # Before the first step.

    def _tree(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"model": self.model, "optimizer": self.optimizer, "seed": self._seed}

    def _prepare(self, shards: Sequence[Shard]) -> None:
        """Build the model, start the workers, and find out how gradients travel."""
        batch = self._batch(shards[0].content)
        if not self.model.variables or _unbuilt(self.model):
            self._loss(self.model, *batch)
        self.optimizer.build(self.model.parameters())
        functions_sent.refuse_variables(
            "data_parallel",
            self._loss,
            remedy="Let the loss take the model as its first argument, and hold them in the model.",
        )
        self._sent = functions_sent.send("data_parallel", (self._loss, self.model, self.optimizer))
        # The driver holds these references: a worker that comes back needs them again.
        self._equipment = (self._ray.put(self._sent), self._data)
        self._start(self._wanted)
        rows = self._trace(shards)
        if rows is None:
            rows = self._ray.get(
                self._replicas[0].row_sparse.remote(shards[0].content, *self._equipment)
            )
        arrays = [*self.model.parameters(), *averaged(self.model)]
        shapes = tuple(tuple(each.shape) for each in arrays)
        dtypes = tuple(each.dtype.name for each in arrays)
        self._layout = GradientLayout(shapes, dtypes, frozenset(rows), self._options.bucket)
        self._send_state(self._replicas)

    def _start(self, count: int) -> None:
        """Start workers, all of them or none: a placement group of Ray has room for each."""
        ray = self._ray
        bundle = {"CPU": float(self._options.threads)}
        group = ray.util.placement_group([bundle] * count, strategy="PACK")
        if not group.wait(WORKER_START_SECONDS):
            ray.util.remove_placement_group(group)
            raise TimeoutError(
                f"data_parallel: no room for {count} workers of {self._options.threads} CPUs: "
                f"others use the cluster of {ray_cluster.cpus(ray)} CPUs. Ask for fewer, or wait."
            )
        self._groups.append(group)
        for at in range(count):
            strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
                placement_group=group, placement_group_bundle_index=at
            )
            # Ray starts a worker that died again; calls that were under way fail, and the driver
            # repeats the step, because the new worker has to be given the state first.
            options = {"max_restarts": -1, "max_task_retries": 0, "num_cpus": self._options.threads}
            actor = ray.remote(Replica).options(scheduling_strategy=strategy, **options)
            self._replicas.append(actor.remote(self._seed, self._options.threads))
            self.report.bytes_sent += len(self._sent.data)

    def _batch(self, content: Any) -> list[np.ndarray]:
        if self._example is None:
            return list(content)
        return [part[content] for part in self._example]

    def _trace(self, shards: Sequence[Shard]) -> list[int] | None:
        """Trace the loss for the shapes of these shards; the row-sparse parameters, or None."""
        rows: list[int] | None = None
        for shard in shards:
            batch = self._batch(shard.content)
            shapes = tuple((part.shape, part.dtype.name) for part in batch)
            if shapes in self._programs or self.report.not_a_program:
                continue
            try:
                found = gradient_program(self._loss, self.model, batch)
            except NotExportableError as reason:
                self.report.not_a_program = str(reason)
                self._programs.clear()
                return None
            rows = row_sparse_in(found)
            self._programs[shapes] = self._ray.put(found)
        if ray_tasks.needs_kernel_files(self._ray):
            files = kernel_files()
            self._kernels = (f"{self._sent.digest}-{len(self._programs)}", [self._ray.put(files)])
        return rows

    def _send_state(self, replicas: Sequence[Any]) -> None:
        state = values_of(state_variables(self.model, self.optimizer))
        self._load(replicas, self.steps, self._ray.put(state), 0.0)
        self.report.bytes_sent += sum(part.nbytes for part in state) * len(replicas)

    def _load(self, replicas: Sequence[Any], position: int, state: Any, loss: float) -> None:
        """Give workers a state, which is a reference."""
        more = (position, self._layout, state, loss, *self._equipment)
        self._ray.get([each.load.remote(*more) for each in replicas])

    # Steps.

    def step(self, *batch: Any) -> float:
        """Take one step from a batch, and return its loss, averaged over all rows.

        The arrays are divided along their first axis. If `data` was given, the batch is one array
        of row numbers of it.
        """
        shards = divided(batch, self.shards, self._example is not None)
        if self._layout is None:
            self._prepare(shards)
        elif self._programs:
            self._trace(shards)
        while True:
            try:
                loss: float | None = self._attempt(shards)
            except self._errors:
                self.report.note_retries(1, f"step {self.steps}")
                loss = self._recover()
            if loss is not None:
                break
        self.steps += 1
        if self._options.check_every and self.steps % self._options.check_every == 0:
            self.check()
        if self._options.checkpoints is not None and self._options.checkpoints.is_due(self.steps):
            self.sync()
            self._options.checkpoints.save(self.steps, self._tree())
        self._metrics.update()
        return loss

    def _attempt(self, shards: Sequence[Shard]) -> float:
        """One step: gradients, sums, updates; Ray passes the objects from worker to worker."""
        assert self._layout is not None
        replicas = self._replicas[: len(shards)]
        start = time.perf_counter()
        buckets = self._layout.buckets
        program = self._programs or None
        if len(self._replicas) == 1:
            alone = replicas[0].alone
            call = alone.remote(self.steps, list(shards), len(shards), program, self._kernels)
            cost, result = self._ray.get(call)
            return self._count(shards, [cost], [result], time.perf_counter() - start)
        calls = []
        for at, replica in enumerate(replicas):
            low, high = (k * len(shards) // len(replicas) for k in (at, at + 1))
            call = replica.gradients.options(num_returns=2 + buckets)
            own = list(shards[low:high])
            calls.append(call.remote(self.steps, own, len(shards), program, self._kernels))
        notes = [each[1] for each in calls]
        gathered = len(replicas) < 3 or self._layout.nbytes < GATHERED_GRADIENT_BYTES
        parts: list[Any] = []
        for bucket in range(buckets):
            pieces = [each[2 + bucket] for each in calls]
            owner = replicas[bucket % len(replicas)]
            parts += pieces if gathered else [owner.reduce.remote(len(shards), *pieces)]
        done = [
            replica.apply.remote(self.steps, len(shards), buckets, gathered, *notes, *parts)
            for replica in self._replicas
        ]
        results = self._ray.get(done)
        costs = self._ray.get([each[0] for each in calls])
        return self._count(shards, costs, results, time.perf_counter() - start)

    def _count(
        self, shards: Sequence[Shard], costs: Sequence[Any], results: Sequence[Any], seconds: float
    ) -> float:
        """Count what a step cost; its loss."""
        for cost in costs:
            self.report.add(cost)
        self.report.bytes_sent += sum(shard.nbytes for shard in shards)
        busy = max(cost.seconds for cost in costs) + max(each[1] for each in results)
        self.report.exchange_seconds += max(0.0, seconds - busy)
        return float(results[0][0])

    # Workers that come and go.

    def _recover(self) -> float | None:
        """Bring all workers to one state; the loss, if the step had been taken by any of them."""
        positions: list[tuple[Any, int, float]] = []
        for replica in list(self._replicas):
            found = self._where(replica)
            if found is None:
                self.report.note_lost(len(self._replicas) - 1)
                self._replicas.remove(replica)
                continue
            if found[0] == UNKNOWN:
                self.report.note_replaced(self.steps)
            positions.append((replica, found[0], found[1]))
        newest = max((position for _, position, _ in positions), default=UNKNOWN)
        if newest == UNKNOWN:
            kept = "There are no checkpoints"
            if self._options.checkpoints is not None:
                kept = f"The latest checkpoint is of step {self._options.checkpoints.latest()}"
            raise WorkersLostError(
                f"data_parallel: all workers were lost in step {self.steps}, and the state with "
                f"them. {kept}: begin a new data_parallel with checkpoints= to go on from one."
            )
        donor, _, loss = next(each for each in positions if each[1] == newest)
        try:
            state = donor.state.remote()
            behind = [replica for replica, position, _ in positions if position != newest]
            self._load(behind, newest, state, loss)
        except self._errors:
            return self._recover()
        return loss if newest == self.steps + 1 else None

    def _where(self, replica: Any) -> tuple[int, float, int] | None:
        """The position of a worker, as soon as it responds; None if it does not come back."""
        until = time.monotonic() + WORKER_START_SECONDS
        while time.monotonic() < until:
            try:
                found: tuple[int, float, int] = self._ray.get(
                    replica.where.remote(), timeout=max(0.1, until - time.monotonic())
                )
                return found
            except self._ray.exceptions.GetTimeoutError:
                return None
            except self._ray.exceptions.ActorUnavailableError:
                time.sleep(0.05)
            except self._ray.exceptions.RayActorError as error:
                if not _may_come_back(self._ray, replica, error):
                    return None
                time.sleep(0.05)
        return None

    def resize(self, workers: Size) -> None:
        """Let more or fewer workers take the next steps; the results stay the same."""
        self._wanted = workers
        if self._layout is None:
            return
        self.sync()
        for replica in self._replicas[workers:]:
            self._ray.kill(replica, no_restart=True)
        del self._replicas[workers:]
        missing = workers - len(self._replicas)
        if missing:
            ray_cluster.check_room("resize", self._ray, workers, self._options.threads)
            self._start(missing)
            self._send_state(self._replicas[-missing:])

    @property
    def workers(self) -> int:
        """The number of workers."""
        return len(self._replicas) if self._layout is not None else self._wanted

    def pids(self) -> list[int]:
        """The processes of the workers, in order."""
        return [found[2] for found in self._ray.get([r.where.remote() for r in self._replicas])]

    def check(self) -> str:
        """Compare the checksums of the state of all workers; raise if they differ."""
        sums = self._ray.get([replica.checksum.remote() for replica in self._replicas])
        if len(set(sums)) > 1:
            raise RuntimeError(
                f"data_parallel: after step {self.steps} the workers have different states: {sums}."
            )
        return str(sums[0]) if sums else ""

    def sync(self) -> None:
        """Give the driver's model and optimizer the state of the workers."""
        if not self._replicas:
            return
        arrays = None
        while arrays is None:
            try:
                arrays = self._ray.get(self._replicas[0].state.remote())
            except self._errors:
                self._recover()
        self.report.bytes_received += sum(part.nbytes for part in arrays)
        assign(state_variables(self.model, self.optimizer), arrays)

    def close(self) -> None:
        """Give the driver the state, and end the workers."""
        try:
            self.sync()
        finally:
            self._end()

    def _end(self) -> None:
        for replica in self._replicas:
            self._ray.kill(replica, no_restart=True)
        self._replicas = []
        for group in self._groups:
            self._ray.util.remove_placement_group(group)
        self._groups = []
        self._metrics.update()

    def __enter__(self) -> DataParallel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self._end()


def _may_come_back(ray: Any, replica: Any, error: Any) -> bool:
    """Whether Ray will start a worker that died again: it was not killed for good."""
    return not isinstance(error, ray.exceptions.ActorDiedError)


def _unbuilt(model: Any) -> bool:
    return any(getattr(module, "built", True) is False for module in model.modules())
