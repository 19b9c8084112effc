"""gt.fit: calls the step on every batch, validates, stops, saves and resumes with all bits."""

import io
import sys
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape import progress

X = np.random.default_rng(0).normal(size=(50, 4))
Y = X @ np.array([1.0, -2.0, 0.5, 3.0])


class Line:
    """A model, its optimiser and its steps."""

    def __init__(self, rate=0.05):
        self.w = gt.Variable(np.zeros(4))
        self.optimizer = gt.optimizers.Adam(rate)
        self.calls = 0
        self.state = {"w": self.w, "optimizer": self.optimizer}
        self.compiled = gt.function(self.run)

    def run(self, x, y):
        noise = gt.random.normal((4,)) * 0.01
        return self.optimizer.minimize(lambda: gt.mean((x @ (self.w + noise) - y) ** 2), [self.w])

    def step(self, x, y):
        self.calls += 1
        return self.compiled(x, y)

    def validate(self, x, y):
        return {"loss": gt.mean((x @ self.w.value - y) ** 2)}

    def bits(self):
        return [
            self.w.numpy().tobytes(),
            *(a.tobytes() for a in self.optimizer.state_dict().values()),
        ]


def test_trains_and_records():
    line = Line()
    history = gt.fit(
        line.step, (X, Y), epochs=60, batch_size=8, shuffle=3, validation=(X, Y),
        validate=line.validate, progress=False,
    )  # fmt: skip
    assert line.calls == 60 * 7
    assert history.epochs == 60
    assert len(history["loss"]) == len(history["val_loss"]) == 60
    assert history["val_loss"][-1] < 0.01 * history["val_loss"][0]
    assert history.ended == "all epochs"


@pytest.mark.parametrize("read_ahead", [0, 1, 3])
def test_calls_are_those_of_a_loop_by_hand(read_ahead):
    seen = []
    gt.fit(
        lambda x, y: seen.append((x, y)), (X, Y), epochs=2, batch_size=16, read_ahead=read_ahead,
        progress=False,
    )  # fmt: skip
    wanted = [(X[i : i + 16], Y[i : i + 16]) for _ in range(2) for i in range(0, 50, 16)]
    assert len(seen) == len(wanted)
    for (a, b), (c, d) in zip(seen, wanted, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


def test_loss_is_the_mean_over_examples():
    history = gt.fit(lambda x: float(np.mean(x)), np.arange(10.0), batch_size=4, progress=False)
    assert history["loss"] == [4.5]


def count(data, **options):
    seen = []
    gt.fit(lambda *batch: seen.append(batch), data, progress=False, **options)
    return seen


def test_iterables_functions_and_iterators():
    assert count([1, 2, 3], epochs=2) == [(1,), (2,), (3,)] * 2
    assert count(lambda: iter([(1, 2)]), epochs=3) == [(1, 2)] * 3
    assert count(iter([1, 2, 3])) == [(1,), (2,), (3,)]

    def endless():
        number = 0
        while True:
            yield number
            number += 1

    # An iterator that runs once goes on in the next epoch; nothing that was read is lost.
    assert count(endless(), steps_per_epoch=3, epochs=2) == [(n,) for n in range(6)]
    assert count(endless, steps_per_epoch=3, epochs=2) == [(n,) for n in range(3)] * 2
    assert count([{"x": 1}]) == [({"x": 1},)]


def test_early_stopping_restores_the_best():
    w = gt.Variable(0.0)
    values = iter([3.0, 1.0, 2.0, 2.5, 0.1])

    def step(_):
        w.assign_add(1.0)

    history = gt.fit(
        step, [0], epochs=10, validation=[0], validate=lambda _: next(values),
        early_stopping=gt.training.EarlyStopping(patience=2, restore_best=True), state={"w": w},
        progress=False,
    )  # fmt: skip
    assert history["val_loss"] == [3.0, 1.0, 2.0, 2.5]
    assert history.ended == "early stopping"
    assert float(w) == 2.0


def test_early_stopping_of_something_not_measured():
    with pytest.raises(ValueError, match=r"'val_loss' is not measured\. There are loss"):
        gt.fit(lambda x: 1.0, [0], early_stopping=gt.training.EarlyStopping(), progress=False)


def test_schedule_sets_the_learning_rate_of_each_epoch():
    line, rates = Line(), []

    def step(x, y):
        rates.append(float(line.optimizer.learning_rate))
        return line.compiled(x, y)

    gt.fit(
        step, (X, Y), epochs=3, batch_size=50, optimizer=line.optimizer,
        schedule=lambda epoch: 0.1 / 2**epoch, progress=False,
    )  # fmt: skip
    assert rates == [0.1, 0.05, 0.025]


class Killed(BaseException):
    """Ends a run in the middle, as a signal would."""


OPTIONS = {"epochs": 6, "batch_size": 8, "shuffle": 7, "progress": False, "validation": (X, Y)}


def whole_run(folder):
    gt.random.seed(11)
    line = Line()
    checkpoints = gt.Checkpointer(folder, every=3)
    history = gt.fit(
        line.step, (X, Y), validate=line.validate, state=line.state, checkpoints=checkpoints,
        early_stopping=gt.training.EarlyStopping(patience=9, restore_best=True), **OPTIONS,
    )  # fmt: skip
    checkpoints.close()
    return line.bits(), dict(history)


@pytest.mark.slow
@pytest.mark.parametrize("moments", [(1,), (3, 5), (7,), (14, 15, 41), (20,)])
def test_resumed_runs_have_the_same_bits_and_history(tmp_path, moments):
    wanted = whole_run(tmp_path / "whole")
    for number, moment in enumerate((*moments, None)):
        # Without a checkpoint a run begins as the whole one did; with one, the seed is overruled.
        resumes = gt.Checkpointer(tmp_path / "killed").latest() is not None
        gt.random.seed(100 + number if resumes else 11)
        gt.clear_plans()
        line = Line()

        def step(x, y, line=line, moment=moment):
            if moment is not None and int(line.optimizer.iterations) >= moment:
                raise Killed
            return line.step(x, y)

        run = {
            "validate": line.validate, "state": line.state,
            "early_stopping": gt.training.EarlyStopping(patience=9, restore_best=True),
        }  # fmt: skip
        with gt.Checkpointer(tmp_path / "killed", every=3) as checkpoints:
            if moment is not None:
                with pytest.raises(Killed):
                    gt.fit(step, (X, Y), checkpoints=checkpoints, **run, **OPTIONS)
            else:
                history = gt.fit(step, (X, Y), checkpoints=checkpoints, **run, **OPTIONS)
    assert line.bits() == wanted[0]
    assert dict(history) == wanted[1]


def test_a_finished_run_is_not_trained_again(tmp_path):
    line = Line()
    for _ in range(2):
        history = gt.fit(
            line.step, (X, Y), epochs=2, batch_size=25, state=line.state, checkpoints=tmp_path,
            progress=False,
        )  # fmt: skip
        assert line.calls == 4
        assert history.epochs == 2
    gt.fit(
        line.step, (X, Y), epochs=2, batch_size=25, state=line.state, checkpoints=tmp_path,
        resume=False, progress=False,
    )  # fmt: skip
    assert line.calls == 8


def test_errors_of_step_and_data_pass_through_and_end_threads():
    def broken():
        yield (X, Y)
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        gt.fit(lambda x, y: 0.0, broken, progress=False)
    with pytest.raises(KeyError, match="mine"):
        gt.fit(lambda x, y: {}["mine"], (X, Y), progress=False)
    for thread in threading.enumerate():
        if thread.name == "gradtape-read-ahead":
            thread.join(10.0)
    names = [thread.name for thread in threading.enumerate()]
    assert "gradtape-read-ahead" not in names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"data": 3.0}, "gives no batches"),
        ({"data": "text"}, "gives no batches"),
        ({"data": []}, "gave no batch"),
        ({"data": [1], "shuffle": 1}, "only arrays are shuffled"),
        ({"data": [1], "validation": [1]}, "validate="),
        ({"data": [1], "schedule": float}, "belong together"),
        ({"data": [1], "checkpoints": "folder"}, "need state="),
        ({"data": [1], "progress": "loud"}, "progress='loud'"),
        ({"data": [1], "step": 3}, "not callable"),
        ({"data": [1], "validate": 3}, "validate: 3 is not callable"),
        (
            {"data": [1], "steps_per_epoch": 0},
            "steps_per_epoch=0 is not a whole number of at least 1",
        ),
        ({"data": [1], "step": lambda x: "text"}, "the step returned 'text'"),
    ],
)
def test_bad_arguments(arguments, words):
    arguments = {"step": lambda *batch: 0.0, "progress": False, **arguments}
    with pytest.raises((TypeError, ValueError), match=words):
        gt.fit(**arguments)


def test_plain_progress(capsys):
    gt.fit(lambda x: 0.5, [1, 2], epochs=2, progress="plain")
    assert capsys.readouterr().err.splitlines() == [
        "epoch 1/2  loss 0.5", "epoch 2/2  loss 0.5",
    ]  # fmt: skip


def test_rich_progress(monkeypatch):
    pytest.importorskip("rich")
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("gradtape.training.fit.PROGRESS_INTERVAL", 0.0)
    gt.fit(lambda x: 0.5, [1, 2], epochs=2, progress="rich")
    assert "epoch 2/2  loss 0.5" in stream.getvalue()


def test_progress_without_rich(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_has_rich", lambda: False)
    gt.fit(lambda x: 0.5, [1, 2], epochs=1)
    assert capsys.readouterr().err == "epoch 1/1  loss 0.5\n"
    with pytest.raises(ImportError, match=r"gradtape\[progress\]"):
        gt.fit(lambda x: 0.5, [1, 2], progress="rich")


def test_a_function_is_told_the_progress(monkeypatch, capsys):
    monkeypatch.setattr("gradtape.training.fit.PROGRESS_INTERVAL", -1.0)
    seen = []
    data = np.arange(4.0)
    gt.fit(lambda x: 0.5, data, batch_size=2, epochs=2, progress=lambda *told: seen.append(told))
    # Two batches, and the end of the epoch.
    rounds = [(1, 2), (2, 2), (2, 2)]
    assert seen == [(f"epoch {epoch}/2", *each) for epoch in (1, 2) for each in rounds]
    assert not capsys.readouterr().err


def test_history_plots(tmp_path):
    pytest.importorskip("matplotlib")
    history = gt.fit(lambda x: 0.5, [1, 2], epochs=2, progress=False)
    figure = history.plot(tmp_path / "loss.png")
    assert (tmp_path / "loss.png").stat().st_size > 0
    assert [line.get_label() for line in figure.axes[0].lines] == ["loss"]


def test_history_with_validation_and_one_epoch(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    history = gt.fit(
        lambda x: 0.5, [1, 2], validation=[3], validate=lambda x: {"error": 0.25}, progress=False
    )
    (axes,) = history.plot().axes
    found = {line.get_label(): line.get_ydata().tolist() for line in axes.lines}
    assert found == {"loss": [0.5], "val_error": [0.25]}
    # One point makes no line, so it is marked.
    assert {line.get_marker() for line in axes.lines} == {"o"}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["loss", "val_error"]


def test_an_empty_history_plots():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    (axes,) = gt.training.History().plot().axes
    assert not axes.lines


def test_history_without_matplotlib_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install gradtape\[plot\]"):
        gt.training.History().plot()
