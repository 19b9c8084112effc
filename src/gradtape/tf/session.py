"""Session: run what TensorFlow 1 would have run, and give NumPy arrays."""

from __future__ import annotations

from typing import Any

from gradtape.errors import ArgumentError
from gradtape.tensor.variable import Variable
from gradtape.tf import tape as tapes
from gradtape.tf.conversion import convert
from gradtape.tf.graphs import Graph, Placeholder, Symbolic
from gradtape.tf.runs import Run, running, symbolic_parts

__all__ = ["InteractiveSession", "Session"]


class Session:
    """Compute tensors, and calls noted down in a graph, and give their values as NumPy arrays.

    >>> x = tf.constant([2.0])
    >>> slopes = tf.gradients(x**3, x)
    >>> with tf.Session() as sess:
    ...     print(sess.run(slopes))
    [array([12.], dtype=float32)]

    The graph keeps what was noted down and variables keep their values, so one session is as good
    as another.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        self.graph = graph
        self._closed = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Refuse further runs."""
        self._closed = True

    def as_default(self) -> Session:
        """This session."""
        return self

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """The values of a tensor, a variable, or a nest of them; None for what gives nothing.

        >>> tf.Session().run({"a": tf.constant(1.0), "b": [tf.constant(2)]})
        {'a': np.float32(1.0), 'b': [np.int32(2)]}
        """
        if self._closed:
            raise RuntimeError("run: this session is closed. Make another.")
        run = Run(_feeds(feed_dict))
        calls = symbolic_parts(_plain(fetches))
        if not calls:
            return _fetched(fetches, run)
        needs = _asks_for_gradients(calls)
        with running(run):
            if needs:
                # Derivatives are asked for inside: nothing that was recorded may be let go of.
                with tapes.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
                    _make(calls, run)
                    found = _fetched(fetches, run)
                tape.reset()
                return found
            _make(calls, run)
            return _fetched(fetches, run)


class InteractiveSession(Session):
    """A session that is the default one from the start; here that makes no difference.

    >>> sess = tf.compat.v1.InteractiveSession()
    >>> tf.constant(2.0).eval().item()
    2.0
    """


def _make(calls: list[Symbolic], run: Run) -> None:
    """Values first, then effects: what a run gives is how things were when it began."""
    for call in [c for c in calls if not c.effect] + [c for c in calls if c.effect]:
        run.value(call)


def _asks_for_gradients(calls: list[Symbolic]) -> bool:
    seen: set[int] = set()
    waiting: list[Any] = list(calls)
    while waiting:
        call = waiting.pop()
        if id(call) in seen:
            continue
        seen.add(id(call))
        if call.function.__name__ in ("gradients", "hessians", "step"):
            return True
        waiting += symbolic_parts((call.args, call.kwargs))
        waiting += call.before
    return False


def _feeds(feed_dict: Any) -> dict[int, Any]:
    found = {}
    for key, value in (feed_dict or {}).items():
        if isinstance(key, Placeholder):
            found[id(key)] = key.fed(value)
        elif isinstance(key, Symbolic):
            found[id(key)] = convert(value)
        else:
            raise ArgumentError(
                f"feed_dict: {key!r} is computed already. Feed placeholders, or what was "
                "computed from them."
            )
    return found


def _plain(fetches: Any) -> Any:
    return list(fetches.values()) if isinstance(fetches, dict) else fetches


def _fetched(fetches: Any, run: Run) -> Any:
    if fetches is None:
        raise TypeError("run: None is nothing to fetch. An unconnected gradient, perhaps?")
    if isinstance(fetches, Symbolic):
        return _value(run.value(fetches))
    if isinstance(fetches, dict):
        return type(fetches)((key, _fetched(part, run)) for key, part in fetches.items())
    if isinstance(fetches, (list, tuple)):
        parts = [_fetched(part, run) for part in fetches]
        return type(fetches)(*parts) if hasattr(fetches, "_fields") else type(fetches)(parts)
    return _value(fetches)


def _value(found: Any) -> Any:
    if found is None:
        return None
    if isinstance(found, (list, tuple)):
        return type(found)(_value(part) for part in found)
    if isinstance(found, Variable) or hasattr(found, "enter"):
        return convert(found).numpy()
    raise TypeError(
        f"run: {type(found).__name__} is not a tensor, a variable or something noted down in a "
        "graph. Fetch one of these."
    )
