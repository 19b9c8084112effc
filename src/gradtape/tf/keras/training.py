"""Training: `compile`, `fit`, `evaluate`, `predict`, and the steps that they take."""

from __future__ import annotations

import itertools
from typing import Any

from gradtape.libraries import as_count, check_exports
from gradtape.pytree import flatten
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.keras import metrics as all_metrics, optimizers as all_optimizers
from gradtape.tf.keras.batches import Batches, batches, chunks, is_in_arrays, joined, split, unpack
from gradtape.tf.keras.callbacks import CallbackList, History, as_list
from gradtape.tf.keras.compiled import CompiledLoss, CompiledMetrics
from gradtape.tf.keras.layers.base import Layer
from gradtape.tf.programs.function import function
from gradtape.tf.programs.tape import GradientTape
from gradtape.typing import Count


class Trainer(Layer):
    """A layer that can be compiled, fitted and evaluated."""

    optimizer: Any = None
    loss: Any = None
    stop_training = False
    history: Any = None
    run_eagerly = False
    _loss_tracker: Any = None
    _compiled_loss: Any = None
    _compiled_metrics: Any = None
    _steps_per_execution = 1

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: Any = "auto",
        auto_scale_loss: bool = True,
    ) -> None:
        """Choose the optimizer, the loss and what else to report.

        With `run_eagerly` the steps of `fit` run as Python; else they are one program, unless
        `train_step` is one's own. `jit_compile` changes nothing: all programs are compiled.
        """
        self.optimizer = all_optimizers.get(optimizer)
        self.loss = loss
        names = self._output_names()
        self._compiled_loss = None if loss is None else CompiledLoss(loss, loss_weights, names)
        if loss is None and loss_weights is not None:
            raise ValueError(f"compile: loss_weights={loss_weights!r} without a loss. Give both.")
        some = bool(metrics) or bool(weighted_metrics)
        made = CompiledMetrics(metrics, weighted_metrics, names) if some else None
        self._compiled_metrics = made
        self._loss_tracker = all_metrics.Mean("loss")
        self.run_eagerly = bool(run_eagerly)
        self._steps_per_execution = int(steps_per_execution)
        if self._steps_per_execution < 1:
            raise ValueError(f"compile: steps_per_execution={steps_per_execution} is not above 0.")
        self.compiled = True

    compiled = False

    def _output_names(self) -> list[str] | None:
        return None

    def _require_compiled(self) -> None:
        if not self.compiled:
            raise RuntimeError("You must call `compile()` before using the model.")

    # What can be overridden.

    def train_step(self, data: Any) -> dict[str, Any]:
        """One step on one batch; gives the metrics. Override it to train in your own way."""
        x, y, sample_weight = unpack(data)
        with GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(x, y, predicted, sample_weight)
            scaled = self.optimizer.scale_loss(loss)
        self._loss_tracker.update_state(loss, sample_weight=_count(x))
        variables = self.trainable_variables
        if variables:
            self.optimizer.apply_gradients(
                zip(tape.gradient(scaled, variables), variables, strict=True)
            )
        return self.compute_metrics(x, y, predicted, sample_weight)

    def test_step(self, data: Any) -> dict[str, Any]:
        """What `evaluate` does with one batch; gives the metrics."""
        x, y, sample_weight = unpack(data)
        predicted = self(x, training=False)
        loss = self.compute_loss(x, y, predicted, sample_weight, training=False)
        self._loss_tracker.update_state(loss, sample_weight=_count(x))
        return self.compute_metrics(x, y, predicted, sample_weight)

    def predict_step(self, data: Any) -> Any:
        """What `predict` does with one batch; gives the outputs."""
        return self(unpack(data)[0], training=False)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """The loss of a batch, with what layers add to it."""
        loss = None
        if self._compiled_loss is not None:
            loss = self._compiled_loss(y, y_pred, sample_weight)
        for more in self.losses:
            more = convert(more)
            loss = more if loss is None else loss + cast(more, loss.dtype)
        if loss is None:
            raise ValueError(
                "No loss to compute. Provide a `loss` argument in `compile()`, or add one with "
                "`add_loss` in a layer."
            )
        return loss

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Count a batch in, and give all metrics by name."""
        if self._compiled_metrics is not None and y is not None:
            self._compiled_metrics.update_state(y, y_pred, sample_weight)
        return self.get_metrics_result()

    @property
    def metrics(self) -> list[Any]:
        """The mean of the loss, the metrics that were compiled, and those that layers keep."""
        found = [] if self._loss_tracker is None else [self._loss_tracker]
        if self._compiled_metrics is not None:
            found.append(self._compiled_metrics)
        if self._compiled_loss is not None:
            found += self._compiled_loss.trackers
        for layer in (self, *self.submodules):
            for name, value in vars(layer).items():
                own = isinstance(value, all_metrics.Metric)
                if own and not (layer is self and name.startswith(("_compiled", "_loss_tracker"))):
                    found.append(value)
        return found

    @property
    def metrics_names(self) -> list[str]:
        """The names of all metrics."""
        return [metric.name for metric in self.metrics]

    def get_metrics_result(self) -> dict[str, Any]:
        """All metrics by name."""
        found: dict[str, Any] = {}
        for metric in self.metrics:
            value = metric.result()
            found.update(value if isinstance(value, dict) else {metric.name: value})
        return found

    def reset_metrics(self) -> None:
        """Begin all metrics anew."""
        for metric in self.metrics:
            metric.reset_state()

    # What users call.

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: Count = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
    ) -> History:
        """Train on arrays, or on an iterable of batches, and give the history of the metrics."""
        self._require_compiled()
        _check_counts(
            "fit",
            batch_size=batch_size,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_batch_size=validation_batch_size,
        )
        if validation_split:
            if not is_in_arrays(x):
                raise ValueError(
                    f"validation_split: a {type(x).__name__} is not split. Pass validation_data."
                )
            if validation_data is None:
                (x, y, sample_weight), validation_data = split(
                    (x, y, sample_weight), validation_split
                )
        data = batches(x, y, sample_weight, batch_size, shuffle, class_weight)
        checks = None
        if validation_data is not None:
            size = validation_batch_size or batch_size
            checks = _validation(validation_data, size)
        steps = steps_per_epoch or data.steps
        as_count("fit: epochs", epochs)
        calls = as_list(callbacks, self, True, verbose=verbose, epochs=epochs, steps=steps)
        history = next(each for each in calls.callbacks if isinstance(each, History))
        self.history, self.stop_training = history, False
        calls.on_train_begin()
        step = self._program("train_step")
        logs: dict[str, Any] = {}
        for epoch in range(initial_epoch, epochs):
            self.reset_metrics()
            calls.on_epoch_begin(epoch)
            logs = self._loop("train", step, data.of_epoch(steps_per_epoch), calls)
            if checks is not None and _is_due(epoch, validation_freq):
                found = self._tested(checks.first(validation_steps), calls)
                logs = {**logs, **{f"val_{name}": number for name, number in found.items()}}
            calls.on_epoch_end(epoch, logs)
            if verbose not in (0, "0"):
                print(f"Epoch {epoch + 1}/{epochs} - {_shown(logs)}")
            if self.stop_training:
                break
        if epochs > initial_epoch:
            self.optimizer.finalize_variable_values(self.trainable_variables)
        calls.on_train_end(logs)
        return history

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """The loss, and the metrics if there are any."""
        self._require_compiled()
        _check_counts("evaluate", batch_size=batch_size, steps=steps)
        data = batches(x, y, sample_weight, batch_size)
        calls = as_list(callbacks, self, verbose=verbose, epochs=1, steps=steps or data.steps)
        logs = self._tested(data.first(steps), calls)
        if verbose not in (0, "0"):
            print(_shown(logs))
        return logs if return_dict else _numbers(logs)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """The outputs for all inputs, as NumPy arrays. There is no progress bar to be verbose."""
        _check_counts("predict", batch_size=batch_size, steps=steps)
        data = batches(x, batch_size=batch_size)
        calls = as_list(callbacks, self, verbose=verbose, epochs=1, steps=steps or data.steps)
        calls.on_predict_begin()
        parts = []
        for step, batch in enumerate(data.of_epoch(steps)):
            calls.on_predict_batch_begin(step)
            parts.append(self.predict_step(batch))
            calls.on_predict_batch_end(step, {"outputs": parts[-1]})
        calls.on_predict_end()
        if not parts:
            raise ValueError("predict: there are no batches. Pass some inputs.")
        return joined(parts)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """One step on a batch; the loss, and the metrics if there are any."""
        self._require_compiled()
        self.reset_metrics()
        logs = _plain(self.train_step(_single(x, y, sample_weight, class_weight)))
        return logs if return_dict else _numbers(logs)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """The loss of a batch, and the metrics if there are any."""
        self._require_compiled()
        self.reset_metrics()
        logs = _plain(self.test_step(_single(x, y, sample_weight)))
        return logs if return_dict else _numbers(logs)

    def predict_on_batch(self, x: Any) -> Any:
        """The outputs for a batch, as NumPy arrays."""
        return joined([self.predict_step(_single(x))])

    def _program(self, name: str) -> Any:
        """A step as one program, made after a first one that runs as it is and makes variables.

        A step of one's own runs as it is: it may do anything.
        """
        own = getattr(type(self), name) is not getattr(Trainer, name)
        step = getattr(self, name)
        if own or self.run_eagerly:
            return step
        program = function(step)
        calls = itertools.count()
        return lambda data: (program if next(calls) else step)(data)

    def _tested(self, elements: Any, calls: CallbackList) -> dict[str, Any]:
        self.reset_metrics()
        calls.on_test_begin()
        logs = self._loop("test", self.test_step, elements, calls)
        calls.on_test_end(logs)
        return logs

    def _loop(self, kind: str, step: Any, elements: Any, calls: CallbackList) -> dict[str, Any]:
        """Take steps over batches; the metrics after the last of them."""
        begin, end = (getattr(calls, f"on_{kind}_batch_{when}") for when in ("begin", "end"))
        found: dict[str, Any] = {}
        done = 0
        for some in chunks(elements, self._steps_per_execution):
            begin(done)
            for data in some:
                found = step(data)
            last = done + self._steps_per_execution - 1
            done += len(some)
            # Numbers are asked for only if somebody looks at them, else once for the epoch.
            logs = _plain(found) if calls.own else {}
            if not calls.own and found:
                convert(next(iter(found.values()))).read()
            end(last, logs)
            if kind == "train" and self.stop_training:
                break
        return _plain(found)


def _validation(given: Any, size: int | None) -> Batches:
    if is_in_arrays(given):
        x, y, sample_weight = unpack(tuple(given) if isinstance(given, (list, tuple)) else given)
        if is_in_arrays(x):
            return batches(x, y, sample_weight, size)
        return batches(x, y, sample_weight)
    return batches(given)


def _single(x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> Any:
    """All examples as one batch."""
    whole = batches(x, y, sample_weight, 2**62, class_weight=class_weight)
    return next(iter(whole.of_epoch(None)))


def _is_due(epoch: int, frequency: Any) -> bool:
    if isinstance(frequency, int):
        return (epoch + 1) % frequency == 0
    return epoch + 1 in frequency


def _count(x: Any) -> int:
    """How many examples a batch has."""
    shape = flatten(x)[0][0].shape
    return int(shape[0]) if len(shape) else 1


def _plain(found: Any) -> dict[str, Any]:
    """Numbers of a step as Python floats, those of nested dicts beside the others."""
    numbers: dict[str, Any] = {}
    for name, value in (found or {}).items():
        if isinstance(value, dict):
            numbers.update(_plain(value))
            continue
        array = convert(value).read()
        numbers[name] = float(array) if array.ndim == 0 else array
    return numbers


def _numbers(logs: dict[str, Any]) -> Any:
    return list(logs.values()) if len(logs) > 1 else next(iter(logs.values()), None)


def _check_counts(name: str, **counts: object) -> None:
    """Raise an error for a count that is given and is not a whole number of at least 1."""
    for key, value in counts.items():
        if value is not None:
            as_count(f"{name}: {key}", value, least=1)


def _shown(logs: dict[str, Any]) -> str:
    return " - ".join(
        f"{name}: {number:.4f}" if isinstance(number, float) else f"{name}: {number}"
        for name, number in logs.items()
    )


check_exports(globals(), ("Trainer",))
