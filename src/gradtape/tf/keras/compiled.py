"""What `compile` is given for losses and metrics, brought together with the outputs of a model."""

from __future__ import annotations

import itertools
from typing import Any

from gradtape.errors import ShapeError
from gradtape.pytree import flatten
from gradtape.tf.keras import losses as all_losses, metrics as all_metrics


def _kind_of_classes(y_true: Any, y_pred: Any) -> str:
    """What shapes tell of labels: binary, integers (sparse) or distributions (categorical)."""
    mine, theirs = tuple(y_true.shape), tuple(y_pred.shape)
    if not theirs or theirs[-1] == 1:
        return "binary"
    fewer = len(mine) < len(theirs) or (mine and mine[-1] == 1)
    return "sparse_categorical" if fewer else "categorical"


class Outputs:
    """The outputs of a model by name; finds the entry of each output in a list or a dict."""

    def __init__(self, y_pred: Any, names: list[str] | None) -> None:
        self.count = len(flatten(y_pred)[0])
        if isinstance(y_pred, dict):
            keys = list(y_pred)
            names = names if names and set(names) == set(keys) else sorted(keys)
        elif names is None or len(names) != self.count:
            names = [f"output_{k}" for k in range(self.count)]
        self.names: list[str] = list(names)

    def matched(self, y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[list[Any], ...]:
        """Targets, predictions and weights for each output; one weight may serve all of them."""
        scores = self.parts("y_pred", y_pred) if self.count > 1 else flatten(y_pred)[0]
        if self.count > 1 and not isinstance(sample_weight, (list, tuple, dict)):
            sample_weight = [sample_weight] * self.count
        return self.parts("y", y_true), scores, self.parts("sample_weight", sample_weight)

    def parts(self, what: str, given: Any) -> list[Any]:
        """The part for each output, None where there is none."""
        if self.count == 1:
            return [_only(given)]
        if given is None:
            return [None] * self.count
        if isinstance(given, dict):
            unknown = [name for name in given if name not in self.names]
            if unknown:
                raise ValueError(
                    f"{what}: {unknown} are not among the outputs {self.names}. Name those."
                )
            return [given.get(name) for name in self.names]
        if not isinstance(given, (list, tuple)) or len(given) != self.count:
            raise ValueError(
                f"{what}: the model has {self.count} outputs, {self.names}. Give a list of that "
                "length, or a dict of some of these names."
            )
        return list(given)


def _only(given: Any) -> Any:
    """The entry of a model's only output, taken out of lists and dicts of length one."""
    while isinstance(given, (list, tuple, dict)) and len(given) == 1:
        (given,) = given.values() if isinstance(given, dict) else given
    return given


class CompiledLoss:
    """The loss of a batch: the weighted sum of those of all outputs."""

    def __init__(self, loss: Any, weights: Any, names: list[str] | None) -> None:
        self._given, self._weights, self._names = loss, weights, names
        if not isinstance(loss, (list, tuple, dict)) and loss not in ("crossentropy", "ce"):
            all_losses.get(loss)
        self._parts: list[Any] | None = None
        self.trackers: list[Any] = []

    def _build(self, outputs: Outputs, y_true: list[Any], y_pred: list[Any]) -> None:
        one = not isinstance(self._given, (list, tuple, dict))
        losses = [self._given] * outputs.count if one else outputs.parts("loss", self._given)
        weights = outputs.parts("loss_weights", self._weights)
        self._parts = [
            (None if loss is None else _loss(loss, t, p), 1.0 if weight is None else float(weight))
            for loss, weight, t, p in zip(losses, weights, y_true, y_pred, strict=True)
        ]
        if outputs.count > 1:
            self.trackers = [all_metrics.Mean(f"{name}_loss") for name in outputs.names]

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The loss, a 0-d tensor; None if no output has one."""
        outputs = Outputs(y_pred, self._names)
        targets, scores, weights = outputs.matched(y_true, y_pred, sample_weight)
        if self._parts is None:
            self._build(outputs, targets, scores)
        assert self._parts is not None
        found = None
        for k, (loss, factor) in enumerate(self._parts):
            if loss is None:
                continue
            if targets[k] is None:
                raise ValueError(
                    f"loss: there are no targets for {outputs.names[k]!r}. Pass y, or compile "
                    "without a loss for it."
                )
            value = loss(targets[k], scores[k], weights[k])
            if value.ndim:
                raise ShapeError(
                    f"loss: {type(loss).__name__} gives one number for each example, shape "
                    f"{tuple(value.shape)}. Make it with a reduction."
                )
            if self.trackers:
                self.trackers[k].update_state(value, sample_weight=int(scores[k].shape[0] or 1))
            value = value if factor == 1.0 else value * factor
            found = value if found is None else found + value
        return found


def _loss(given: Any, y_true: Any, y_pred: Any) -> Any:
    if isinstance(given, str) and given in ("crossentropy", "ce"):
        given = f"{_kind_of_classes(y_true, y_pred)}_crossentropy"
    found = all_losses.get(given)
    if isinstance(found, all_losses.Loss):
        return found
    return all_losses.LossFunctionWrapper(found, name=getattr(found, "__name__", "loss"))


class CompiledMetrics(all_metrics.Metric):
    """All metrics that `compile` was given; they are made when shapes are known."""

    def __init__(self, metrics: Any, weighted_metrics: Any, names: list[str] | None) -> None:
        super().__init__(name="compile_metrics")
        for word, given in (("metrics", metrics), ("weighted_metrics", weighted_metrics)):
            if given is not None and not isinstance(given, (list, tuple, dict)):
                raise ValueError(f"{word}: {given!r} is not a list or dict. Put it into a list.")
        self._given, self._names = (metrics, weighted_metrics), names
        self._of_outputs: list[tuple[int, Any, bool]] = []
        self._built = False

    @property
    def metrics(self) -> list[Any]:
        """All of them."""
        return [metric for _, metric, _ in self._of_outputs]

    @property
    def variables(self) -> list[Any]:
        """The state of all of them."""
        return [variable for metric in self.metrics for variable in metric.variables]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        outputs = Outputs(y_pred, self._names)
        targets, scores, weights = outputs.matched(y_true, y_pred, sample_weight)
        if not self._built:
            self._build(outputs, targets, scores)
        for k, metric, weighted in self._of_outputs:
            metric.update_state(targets[k], scores[k], weights[k] if weighted else None)

    def _build(self, outputs: Outputs, y_true: list[Any], y_pred: list[Any]) -> None:
        for given, weighted in zip(self._given, (False, True), strict=True):
            if not given:
                continue
            several = outputs.count > 1
            of_each = outputs.parts("metrics", given) if several else [flatten(given)[0]]
            for k, some in enumerate(of_each):
                some = some if isinstance(some, (list, tuple)) else [some]
                for each in some:
                    if each is None:
                        continue
                    metric, name = _metric(each, y_true[k], y_pred[k])
                    if several:
                        name = f"{outputs.names[k]}_{name}"
                    metric.name = name
                    self._of_outputs.append((k, metric, weighted))
        self._built = True

    def reset_state(self) -> None:
        """Begin anew."""
        for metric in self.metrics:
            metric.reset_state()

    def result(self) -> dict[str, Any]:
        """The number of each, by name; of a name that is taken, a weighted one says that it is."""
        results: dict[str, Any] = {}
        for _, metric, weighted in self._of_outputs:
            name = metric.name
            if weighted and name in results:
                name = f"weighted_{name}"
            free = itertools.chain([name], (f"{name}_{k}" for k in itertools.count(1)))
            results[next(each for each in free if each not in results)] = metric.result()
        return results


def _metric(given: Any, y_true: Any, y_pred: Any) -> tuple[Any, str]:
    """A metric, and the name to show it under: the one it was asked for by."""
    name = given if isinstance(given, str) else None
    word = given.lower() if isinstance(given, str) else given
    if word in ("accuracy", "acc"):
        given = f"{_kind_of_classes(y_true, y_pred)}_accuracy"
    elif word in ("crossentropy", "ce"):
        given = f"{_kind_of_classes(y_true, y_pred)}_crossentropy"
    found = all_metrics.get(given)
    if not isinstance(found, all_metrics.Metric):
        found = all_metrics.MeanMetricWrapper(found, name=getattr(found, "__name__", "metric"))
    return found, name or found.name
