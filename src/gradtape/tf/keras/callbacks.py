"""Callbacks: what `fit`, `evaluate` and `predict` call at each beginning and end."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradtape.libraries import check_exports
from gradtape.tf.keras import metrics as all_metrics
from gradtape.typing import Count, Decay, Finite, NonNegative

__all__ = [
    "Callback",
    "CallbackList",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "ReduceLROnPlateau",
    "TerminateOnNaN",
]

Logs = dict[str, Any]


class Callback:
    """What is called while a model is trained; derive your own from it.

    `self.model` is the model, `self.params` has epochs, steps and verbose.

    >>> class Count(tf.keras.callbacks.Callback):
    ...     batches = 0
    ...
    ...     def on_train_batch_end(self, batch, logs=None):
    ...         self.batches += 1
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    >>> model.compile(loss="mse")
    >>> count = Count()
    >>> history = model.fit(np.ones((8, 2)), np.ones(8), batch_size=4, verbose=0, callbacks=[count])
    >>> count.batches
    2
    """

    params: dict[str, Any] | None = None
    _model: Any = None

    @property
    def model(self) -> Any:
        """The model that calls."""
        return self._model

    def set_params(self, params: dict[str, Any]) -> None:
        """Told before the first call: epochs, steps, verbose."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Told before the first call."""
        self._model = model

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Called before the first epoch."""

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Called after the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Called before an epoch of training."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Called after an epoch of training, with the loss and the metrics."""

    def on_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before a batch of training, unless `on_train_batch_begin` is defined."""

    def on_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after a batch of training, unless `on_train_batch_end` is defined."""

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before a batch of training."""
        self.on_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after a batch of training, with the loss and the metrics so far."""
        self.on_batch_end(batch, logs=logs)

    def on_test_begin(self, logs: Logs | None = None) -> None:
        """Called before an evaluation, also one inside `fit`."""

    def on_test_end(self, logs: Logs | None = None) -> None:
        """Called after an evaluation."""

    def on_test_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before a batch of an evaluation."""

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after a batch of an evaluation."""

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        """Called before predictions."""

    def on_predict_end(self, logs: Logs | None = None) -> None:
        """Called after predictions."""

    def on_predict_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before a batch of predictions."""

    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after a batch of predictions, with the outputs."""


class CallbackList(Callback):
    """Several callbacks as one, called in their order.

    >>> callbacks = tf.keras.callbacks.CallbackList([tf.keras.callbacks.History()])
    >>> callbacks.on_epoch_end(0, {"loss": 1.0})
    >>> callbacks.callbacks[0].history
    {'loss': [1.0]}
    """

    def __init__(
        self,
        callbacks: Any = None,
        add_history: bool = False,
        add_progbar: bool = False,
        model: Any = None,
        **params: Any,
    ) -> None:
        if add_progbar:
            raise ValueError("CallbackList: there is no progress bar. Leave add_progbar out.")
        given = [callbacks] if isinstance(callbacks, Callback) else list(callbacks or ())
        for each in given:
            if not isinstance(each, Callback):
                raise TypeError(
                    f"callbacks: {each!r} is not a callback. Derive its class from "
                    "tf.keras.callbacks.Callback, and pass an instance."
                )
        self.callbacks: list[Callback] = given
        self.own = bool(given)
        if add_history and not any(isinstance(each, History) for each in given):
            self.callbacks.append(History())
        if model is not None:
            self.set_model(model)
        self.set_params(params)

    def append(self, callback: Callback) -> None:
        """One more callback at the end."""
        self.callbacks.append(callback)

    def set_params(self, params: dict[str, Any]) -> None:
        """Told to each."""
        self.params = params
        for callback in self.callbacks:
            callback.set_params(params)

    def set_model(self, model: Any) -> None:
        """Told to each."""
        self._model = model
        for callback in self.callbacks:
            callback.set_model(model)


def _to_each(name: str) -> Callable[..., None]:
    def forward(self: Any, *args: Any, logs: Logs | None = None) -> None:
        numbers = args[:1] if "epoch" in name or "batch" in name else ()
        given = (args[len(numbers)] if len(args) > len(numbers) else logs) or {}
        for callback in self.callbacks:
            getattr(callback, name)(*numbers, logs=given)

    forward.__name__, forward.__qualname__ = name, f"CallbackList.{name}"
    forward.__doc__ = "Called on each."
    return forward


_HOOKS = tuple(name for name in vars(Callback) if name.startswith("on_"))
for _name in _HOOKS:
    setattr(CallbackList, _name, _to_each(_name))


class History(Callback):
    """What `fit` gives: the loss and the metrics of each epoch, in `history`.

    >>> tf.keras.callbacks.History().history
    {}
    """

    def __init__(self) -> None:
        self.history: dict[str, list[Any]] = {}
        self.epoch: list[int] = []

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.epoch = []

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        for name, number in (logs or {}).items():
            self.history.setdefault(name, []).append(number)
        if self.model is not None:
            self.model.history = self


class LambdaCallback(Callback):
    """A callback made of functions, such as `on_epoch_end=lambda epoch, logs: ...`.

    >>> seen = []
    >>> callback = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: seen.append(e))
    >>> callback.on_epoch_end(3, {})
    >>> seen
    [3]
    """

    def __init__(
        self,
        on_epoch_begin: Any = None,
        on_epoch_end: Any = None,
        on_train_begin: Any = None,
        on_train_end: Any = None,
        on_train_batch_begin: Any = None,
        on_train_batch_end: Any = None,
        **kwargs: Any,
    ) -> None:
        unknown = [name for name in kwargs if name not in _HOOKS]
        if unknown:
            raise TypeError(
                f"LambdaCallback: {unknown} are never called. There are {', '.join(_HOOKS)}."
            )
        named = {
            "on_epoch_begin": on_epoch_begin,
            "on_epoch_end": on_epoch_end,
            "on_train_begin": on_train_begin,
            "on_train_end": on_train_end,
            "on_train_batch_begin": on_train_batch_begin,
            "on_train_batch_end": on_train_batch_end,
            **kwargs,
        }
        for name, function in named.items():
            if function is not None:
                setattr(self, name, function)


class _Monitor(Callback):
    """What watches one of the numbers of an epoch."""

    def __init__(self, monitor: str, mode: str, min_delta: Finite) -> None:
        if mode not in ("auto", "min", "max"):
            raise ValueError(f'mode: {mode!r} is unknown. Use "auto", "min" or "max".')
        self.monitor, self.mode = monitor, mode
        self.min_delta = abs(float(min_delta))

    @property
    def _rises(self) -> bool:
        """Whether more is better, which the kind of metric tells."""
        if self.mode != "auto":
            return self.mode == "max"
        name = self.monitor.removeprefix("val_")
        if name == "loss" or name.endswith("_loss"):
            return False
        for metric in self.model.metrics:
            for each in (metric, *getattr(metric, "metrics", ())):
                if each.name == name and type(each).__name__ in all_metrics.DIRECTIONS:
                    return all_metrics.DIRECTIONS[type(each).__name__]
        raise ValueError(
            f"{type(self).__name__}: whether {self.monitor!r} should rise or fall is not known. "
            'Pass mode="max" or mode="min".'
        )

    def improves(self, value: float, best: float | None) -> bool:
        """Whether a value is better than the best so far, by more than min_delta."""
        if best is None:
            return True
        return value - self.min_delta > best if self._rises else value + self.min_delta < best

    def monitored(self, logs: Logs | None) -> Any:
        """The number that is watched; a warning if it is not there."""
        _ = self._rises  # an error, if that is not known
        found = (logs or {}).get(self.monitor)
        if found is None:
            warnings.warn(
                f"{type(self).__name__}: there is no {self.monitor!r} in an epoch of "
                f"{', '.join(logs or ()) or 'nothing'}. Name one of them in monitor=.",
                stacklevel=3,
            )
        return found


class EarlyStopping(_Monitor):
    """End training when a number has not become better for `patience` epochs.

    >>> stop = tf.keras.callbacks.EarlyStopping(monitor="loss", patience=1)
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    >>> model.compile(tf.keras.optimizers.SGD(0.0), "mse")
    >>> x = np.ones((4, 1))
    >>> len(model.fit(x, x, epochs=10, verbose=0, callbacks=[stop]).history["loss"])
    2
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: Finite = 0,
        patience: Count = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: Count = 0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.verbose, self.baseline = patience, verbose, baseline
        self.restore_best_weights = restore_best_weights
        self.start_from_epoch = start_from_epoch
        self.on_train_begin()

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.wait = self.stopped_epoch = self.best_epoch = 0
        self.best: Any = None
        self.best_weights: Any = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        value = self.monitored(logs)
        if value is None or epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights, self.best_epoch = self.model.get_weights(), epoch
        self.wait += 1
        if self.improves(value, self.best):
            self.best, self.best_epoch = value, epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self.improves(value, self.baseline):
                self.wait = 0
        elif self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Go back to the best weights, if that was asked for."""
        if self.stopped_epoch > 0 and self.verbose > 0:
            print(f"Epoch {self.stopped_epoch + 1}: early stopping")
        if self.restore_best_weights and self.best_weights is not None:
            if self.verbose > 0:
                print(
                    "Restoring model weights from the end of the best epoch: "
                    f"{self.best_epoch + 1}."
                )
            self.model.set_weights(self.best_weights)


class ReduceLROnPlateau(_Monitor):
    """Multiply the learning rate by `factor` when a number has not become better for a while.

    >>> callback = tf.keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=2)
    >>> callback.factor
    0.5
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: Decay = 0.1,
        patience: Count = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: Finite = 1e-4,
        cooldown: Count = 0,
        min_lr: NonNegative = 0.0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.cooldown, self.min_lr = cooldown, min_lr
        self.on_train_begin()

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.cooldown_counter = self.wait = 0
        self.best: Any = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        rate = float(self.model.optimizer.learning_rate)
        if logs is not None:
            logs["learning_rate"] = rate
        value = self.monitored(logs)
        if value is None:
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.wait = 0
        if self.improves(value, self.best):
            self.best, self.wait = value, 0
        elif self.cooldown_counter <= 0:
            self.wait += 1
            if self.wait >= self.patience and rate > np.float32(self.min_lr):
                new = max(rate * self.factor, self.min_lr)
                self.model.optimizer.learning_rate = new
                if self.verbose > 0:
                    print(f"Epoch {epoch + 1}: ReduceLROnPlateau reducing learning rate to {new}.")
                self.cooldown_counter, self.wait = self.cooldown, 0


class LearningRateScheduler(Callback):
    """Set the learning rate before each epoch: `schedule(epoch, rate)` or `schedule(epoch)`.

    >>> callback = tf.keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.5 * rate)
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    >>> model.compile(tf.keras.optimizers.SGD(1.0), "mse")
    >>> x = np.zeros((4, 1))
    >>> model.fit(x, x, epochs=2, verbose=0, callbacks=[callback]).history["learning_rate"]
    [0.5, 0.25]
    """

    def __init__(self, schedule: Callable[..., Any], verbose: int = 0) -> None:
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        optimizer = self.model.optimizer
        try:
            rate = self.schedule(epoch, float(optimizer.learning_rate))
        except TypeError:
            rate = self.schedule(epoch)
        if not isinstance(rate, (float, np.floating)):
            raise ValueError(
                f"The output of the `schedule` function should be a float. Got: {rate}."
            )
        optimizer.learning_rate = rate
        if self.verbose > 0:
            print(f"\nEpoch {epoch + 1}: LearningRateScheduler setting learning rate to {rate}.")

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Count the learning rate among the numbers of the epoch."""
        if logs is not None:
            logs["learning_rate"] = float(self.model.optimizer.learning_rate)


class TerminateOnNaN(Callback):
    """End training when the loss is not a finite number.

    >>> tf.keras.callbacks.TerminateOnNaN().model is None
    True
    """

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(loss):
            print(f"Batch {batch}: Invalid loss, terminating training")
            self.model.stop_training = True


def as_list(callbacks: Any, model: Any, history: bool = False, **params: Any) -> CallbackList:
    """What a user gave as callbacks: one, several, or a list that is ready."""
    if isinstance(callbacks, CallbackList):
        return callbacks
    if callbacks is not None and not isinstance(callbacks, (Callback, Iterable)):
        raise TypeError(f"callbacks: {callbacks!r} is not a callback, nor a list of them.")
    return CallbackList(callbacks, add_history=history, model=model, **params)


check_exports(globals(), __all__)
