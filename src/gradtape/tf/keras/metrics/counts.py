"""Metrics that count right and wrong predictions above thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.libraries import as_count, check_exports
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.keras.metrics.base import Metric
from gradtape.tf.math import divide_no_nan
from gradtape.tf.ops import elementwise
from gradtape.tf.ops.arrays import broadcast_to, expand_dims, reshape
from gradtape.tf.ops.indexing import where
from gradtape.tf.ops.reductions import reduce_sum

if TYPE_CHECKING:
    from gradtape.tf.base.tensor import Tensor
    from gradtape.tf.programs.variable import Variable

__all__ = [
    "AUC",
    "FalseNegatives",
    "FalsePositives",
    "Precision",
    "Recall",
    "TrueNegatives",
    "TruePositives",
]

# What a prediction above a threshold, or not, can be: by the name of the variable.
_CASES = ("true_positives", "true_negatives", "false_positives", "false_negatives")


class Counted(Metric):
    """Sums of the weights of examples, for each threshold."""

    # The cases that are counted.
    cases: tuple[str, ...] = ()

    def __init__(
        self,
        thresholds: Any = None,
        name: str | None = None,
        dtype: Any = None,
        class_id: int | None = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        given = 0.5 if thresholds is None else thresholds
        self.thresholds = [float(t) for t in np.atleast_1d(given)]
        if thresholds is not None and not all(0.0 <= t <= 1.0 for t in self.thresholds):
            raise ValueError(
                f"{type(self).__name__}: thresholds {self.thresholds} are not all from 0 to 1."
            )
        self.class_id = None if class_id is None else as_count("class_id", class_id)
        for case in self.cases:
            made = self.add_variable((len(self.thresholds),), "zeros", name=case)
            setattr(self, case, made)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        scores = cast(convert(y_pred), self._dtype)
        given = cast(convert(y_true), self._dtype)
        if given.ndim == scores.ndim + 1 and given.shape[-1] == 1:
            given = given[..., 0]
        elif given.ndim == scores.ndim - 1 and scores.shape[-1] == 1:
            scores = scores[..., 0]
        if self.class_id is not None:
            given, scores = given[..., self.class_id], scores[..., self.class_id]
        # A row for each threshold.
        said = reshape(scores, [1, -1]) > reshape(convert(self.thresholds, self._dtype), [-1, 1])
        there = reshape(given != cast(0.0, self._dtype), [1, -1])
        weights = cast(convert(1.0 if sample_weight is None else sample_weight), self._dtype)
        while 0 < weights.ndim < scores.ndim:
            weights = expand_dims(weights, -1)
        if weights.ndim == scores.ndim + 1 and weights.shape[-1] == 1:
            weights = weights[..., 0]
        weights = reshape(broadcast_to(weights, scores.shape), [1, -1])
        for case in self.cases:
            known, positive = case.split("_")
            meant = said if positive == "positives" else elementwise.logical_not(said)
            right = elementwise.equal(said, there)
            counts = right if known == "true" else elementwise.logical_not(right)
            chosen = elementwise.logical_and(meant, counts)
            found = reduce_sum(where(chosen, weights, cast(0.0, self._dtype)), axis=1)
            getattr(self, case).assign_add(found)

    def shown(self, numbers: Tensor) -> Tensor:
        """One number for one threshold, else one for each."""
        return numbers[0] if len(self.thresholds) == 1 else convert(numbers)


def _without_top(kind: str, top_k: Any) -> None:
    if top_k is not None:
        raise ValueError(
            f"{kind}: top_k={top_k} is not covered. Leave it out, or compute the mean of "
            "tf.keras.metrics.top_k_categorical_accuracy."
        )


class Precision(Counted):
    """How many of those said to be there are there.

    >>> tf.keras.metrics.Precision()([1, 0, 1], [0.9, 0.6, 0.1]).numpy().item()
    0.5
    """

    cases = ("true_positives", "false_positives")
    true_positives: Variable
    false_positives: Variable

    def __init__(
        self,
        thresholds: Any = None,
        top_k: Any = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        _without_top("Precision", top_k)
        super().__init__(thresholds, name, dtype, class_id)

    def result(self) -> Tensor:
        said = self.true_positives + self.false_positives
        return self.shown(divide_no_nan(self.true_positives, said))


class Recall(Counted):
    """How many of those that are there are said to be.

    >>> tf.keras.metrics.Recall()([1, 0, 1], [0.9, 0.6, 0.1]).numpy().item()
    0.5
    """

    cases = ("true_positives", "false_negatives")
    true_positives: Variable
    false_negatives: Variable

    def __init__(
        self,
        thresholds: Any = None,
        top_k: Any = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        _without_top("Recall", top_k)
        super().__init__(thresholds, name, dtype, class_id)

    def result(self) -> Tensor:
        there = self.true_positives + self.false_negatives
        return self.shown(divide_no_nan(self.true_positives, there))


def _count_of(name: str, case: str, doc: str) -> Any:
    def __init__(  # noqa: N807
        self: Any, thresholds: Any = None, name: str | None = None, dtype: Any = None
    ) -> None:
        Counted.__init__(self, thresholds, name, dtype)

    def result(self: Any) -> Tensor:
        """The count so far."""
        return self.shown(getattr(self, case))

    example = f">>> tf.keras.metrics.{name}()([1, 0], [0.9, 0.1]).shape\n    TensorShape([])"
    members = {
        "__init__": __init__,
        "result": result,
        "cases": (case,),
        "__module__": __name__,
        "__doc__": f"{doc}\n\n    {example}\n    ",
    }
    return type(name, (Counted,), members)


TruePositives = _count_of("TruePositives", _CASES[0], "How many are there and said to be.")
TrueNegatives = _count_of("TrueNegatives", _CASES[1], "How many are not there, nor said to be.")
FalsePositives = _count_of("FalsePositives", _CASES[2], "How many are only said to be there.")
FalseNegatives = _count_of("FalseNegatives", _CASES[3], "How many are there and not said to be.")


class AUC(Counted):
    """The area under a curve of many thresholds: "ROC", or "PR" for precision and recall.

    >>> metric = tf.keras.metrics.AUC()
    >>> round(metric([0, 0, 1, 1], [0.0, 0.5, 0.3, 0.9]).numpy().item(), 3)
    0.75
    """

    cases = _CASES
    true_positives: Variable
    true_negatives: Variable
    false_positives: Variable
    false_negatives: Variable

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        summation_method: str = "interpolation",
        name: str | None = None,
        dtype: Any = None,
        thresholds: Any = None,
        from_logits: bool = False,
    ) -> None:
        if curve not in ("ROC", "PR") or summation_method != "interpolation":
            raise ValueError(
                f"AUC: curve={curve!r} with summation_method={summation_method!r} is not covered. "
                'Use "ROC" or "PR" with "interpolation".'
            )
        if thresholds is None:
            if num_thresholds <= 1:
                raise ValueError(f"AUC: num_thresholds={num_thresholds} is not above 1.")
            thresholds = np.arange(1, num_thresholds - 1) / (num_thresholds - 1)
        super().__init__(sorted(thresholds) or [0.5], name, dtype)
        # Below and above all predictions.
        self.thresholds = [-1e-7, *sorted(float(t) for t in thresholds), 1.0 + 1e-7]
        for case in self.cases:
            setattr(self, case, self.add_variable((len(self.thresholds),), "zeros", name=case))
        self.num_thresholds, self.curve = len(self.thresholds), curve
        self.from_logits = bool(from_logits)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        scores = elementwise.sigmoid(y_pred) if self.from_logits else y_pred
        super().update_state(y_true, scores, sample_weight)

    def result(self) -> Tensor:
        right, wrong = convert(self.true_positives), convert(self.false_positives)
        missed, spared = convert(self.false_negatives), convert(self.true_negatives)
        if self.curve == "ROC":
            hits = divide_no_nan(right, right + missed)
            alarms = divide_no_nan(wrong, wrong + spared)
            return reduce_sum((alarms[:-1] - alarms[1:]) * (hits[:-1] + hits[1:]) / 2.0)
        # Between thresholds the counts, not the shares, are interpolated (Davis and Goadrich 2006).
        said = right + wrong
        more = right[:-1] - right[1:]
        slope = divide_no_nan(more, said[:-1] - said[1:])
        offset = right[1:] - slope * said[1:]
        known = elementwise.logical_and(said[:-1] > 0.0, said[1:] > 0.0)
        ratio = where(known, divide_no_nan(said[:-1], said[1:]), 1.0)
        parts = slope * (more + offset * elementwise.log(ratio))
        return reduce_sum(divide_no_nan(parts, right[1:] + missed[1:]))


check_exports(globals(), __all__)
