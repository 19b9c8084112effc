"""Data-parallel training on a local cluster of Ray."""

import os
import signal

import numpy as np
import pytest

import gradtape as gt
from gradtape import distributed, nn

pytestmark = pytest.mark.slow

STEPS, ROWS = 8, 24


def make(dropout=0.0):
    gt.random.seed(0)

    class Words(nn.Module):
        """Words looked up in a table: its gradient is row-sparse. The mean is not trained."""

        def __init__(self):
            self.table = nn.Embedding(20, 4)
            self.dense = nn.Sequential([nn.Dense(8, "tanh"), nn.Dropout(dropout), nn.Dense(1)])
            self.mean = gt.Variable(0.0, trainable=False)

        def call(self, words):
            found = self.table(words)
            self.mean.assign(0.9 * self.mean + 0.1 * gt.mean(found))
            return self.dense(found)[:, 0]

    model = Words()
    model(np.array([0, 1]))
    model.mean.assign(0.0)
    return model, gt.optimizers.Adam(0.05, lazy=True)


def loss(model, words, targets):
    return gt.mean((model(words) - targets) ** 2)


def batches():
    rng = np.random.default_rng(1)
    return [(rng.integers(0, 20, ROWS), rng.normal(size=ROWS)) for _ in range(STEPS)]


def trained(workers, shards=4, dropout=0.0, before_step=None, **more):
    # Closures are pickled by value: workers cannot import this module.
    def own_loss(model, words, targets):
        return gt.mean((model(words) - targets) ** 2)

    model, optimizer = make(dropout)
    with distributed.data_parallel(
        own_loss, model, optimizer, workers=workers, shards=shards, seed=3, check_every=3, **more
    ) as train:
        losses = []
        for number, batch in enumerate(batches()):
            if before_step is not None:
                before_step(number, train)
            losses.append(train.step(*batch))
    return losses, model.state_dict(), train.report


def equal(a, b):
    return all(np.array_equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def by_one_worker(started_cluster):
    return trained(1)


def test_it_equals_one_machine(ray, by_one_worker):
    losses, state, report = by_one_worker
    model, optimizer = make()
    for number, batch in enumerate(batches()):
        found = optimizer.minimize(lambda batch=batch: loss(model, *batch), model.parameters())
        np.testing.assert_allclose(losses[number], float(found), rtol=1e-9)
    for name, array in model.state_dict().items():
        np.testing.assert_allclose(state[name], array, rtol=1e-9, atol=1e-12)
    assert report.traced == 0
    assert report.not_a_program == ""


def test_bits_do_not_depend_on_workers_that_die_come_and_go(ray, by_one_worker):
    killed = []

    def before_step(number, train):
        if number == 2:
            killed.append(train.pids()[0])
            os.kill(killed[0], signal.SIGKILL)
        if number == 4:
            train.resize(3)
        if number == 6:
            train.resize(1)

    losses, state, report = trained(2, before_step=before_step, bucket=64)
    assert losses == by_one_worker[0]
    assert equal(state, by_one_worker[1])
    assert (report.replaced, report.lost) == (1, 0)
    assert report.retries >= 1
    # Two workers for steps 0 to 3, three for 4 and 5, one for 6 and 7.
    assert report.tasks == 4 * 2 + 2 * 3 + 2
    assert killed[0] in report.pids


def test_large_gradients_are_summed_bucket_by_bucket(ray, by_one_worker, monkeypatch):
    monkeypatch.setattr(distributed.training, "GATHERED_GRADIENT_BYTES", 0)
    losses, state, _ = trained(3, bucket=64)
    assert losses == by_one_worker[0]
    assert equal(state, by_one_worker[1])


def test_dropout_draws_for_the_shard_and_not_for_the_worker(ray):
    one = trained(1, shards=3, dropout=0.5)
    two = trained(2, shards=3, dropout=0.5)
    assert one[0] == two[0]
    assert equal(one[1], two[1])
    assert "random" in two[2].not_a_program


def test_a_run_goes_on_from_its_checkpoint(ray, tmp_path, by_one_worker):
    class StoppedError(Exception):
        pass

    def stop(number, train):
        if number == 5:
            raise StoppedError

    with gt.Checkpointer(tmp_path, every=2) as checkpoints, pytest.raises(StoppedError):
        trained(1, before_step=stop, checkpoints=checkpoints)

    def own_loss(model, words, targets):
        return gt.mean((model(words) - targets) ** 2)

    model, optimizer = make()
    with (
        gt.Checkpointer(tmp_path, every=2) as checkpoints,
        distributed.data_parallel(
            own_loss, model, optimizer, workers=1, shards=4, checkpoints=checkpoints
        ) as train,
    ):
        assert train.steps == 4
        losses = [train.step(*batch) for batch in batches()[train.steps :]]
    assert losses == by_one_worker[0][4:]
    assert equal(model.state_dict(), by_one_worker[1])


def test_data_that_workers_hold(ray):
    x = np.random.default_rng(0).normal(size=(40, 3))
    y = x @ np.array([1.0, -2.0, 0.5])
    model = nn.Dense(1, in_features=3)
    with distributed.data_parallel(
        lambda model, x, y: gt.mean((model(x)[:, 0] - y) ** 2),
        model,
        gt.optimizers.SGD(0.1),
        workers=1,
        shards=2,
        data=(x, y),
    ) as train:
        losses = [train.step(np.arange(step % 2, 40, 2)) for step in range(30)]
    assert losses[-1] < 0.05 * losses[0]
    assert train.report.bytes_sent < 30 * x.nbytes


def test_bad_use_is_named(ray):
    model, optimizer = gt.nn.Dense(1, in_features=2), gt.optimizers.SGD(0.1)
    hidden = gt.Variable(1.0, name="hidden")
    x = np.ones((4, 2))
    with pytest.raises(TypeError, match="model is a list"):
        distributed.data_parallel(loss, [], optimizer)
    with pytest.raises(ValueError, match="do not fit a cluster of 4 CPUs"):
        distributed.data_parallel(loss, model, optimizer, workers=50)
    train = distributed.data_parallel(
        lambda model, x: gt.mean(model(x)) * hidden, model, optimizer, workers=1
    )
    with pytest.raises(ValueError, match=r"hidden.*hold them in the model"):
        train.step(x)
    train = distributed.data_parallel(lambda m, x: gt.mean(m(x)), model, optimizer, shards=5)
    with pytest.raises(ValueError, match="4 rows cannot be divided into 5 shards"):
        train.step(x)
    with pytest.raises(ValueError, match="same number of rows"):
        train.step(x, np.ones(3))
