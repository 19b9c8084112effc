"""Starting `data_parallel`: its arguments are checked before any worker is started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gradtape.annotated_kinds import Count, Size
from gradtape.argument_checks import as_count
from gradtape.distributed import gradient_parts
from gradtape.distributed.training import DataParallel

if TYPE_CHECKING:
    from gradtape.training.storage.checkpointer import Checkpointer

__all__ = ["data_parallel"]


def data_parallel(
    loss: Callable[..., Any],
    model: Any,
    optimizer: Any,
    *,
    workers: int = 2,
    shards: Size | None = None,
    data: Sequence[Any] | None = None,
    checkpoints: Checkpointer | None = None,
    seed: int | None = None,
    threads: Size = 1,
    check_every: Count = 100,
    bucket: Size = gradient_parts.BUCKET,
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
    workers = as_count("data_parallel: workers", workers, least=1)
    if shards is not None:
        shards = as_count("data_parallel: shards", shards, least=1)
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
    return DataParallel(
        loss,
        model,
        optimizer,
        workers=workers,
        shards=shards,
        data=data,
        checkpoints=checkpoints,
        seed=seed,
        threads=as_count("data_parallel: threads", threads, least=1),
        check_every=as_count("data_parallel: check_every", check_every),
        bucket=as_count("data_parallel: bucket", bucket, least=1),
        address=address,
    )
