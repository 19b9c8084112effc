"""Session: run the calls of a graph, and return NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradtape import Variable
from gradtape.errors import ArgumentError
from gradtape.libraries import check_exports
from gradtape.tf.base.conversion import convert
from gradtape.tf.programs import tape as tapes
from gradtape.tf.v1.graphs import Graph
from gradtape.tf.v1.symbolic import Placeholder, Run, Symbolic, running, symbolic_parts

__all__ = ["ConfigProto", "InteractiveSession", "Session", "get_default_session"]


class ConfigProto:
    """Options of a session: accepted, and without effect.

    >>> sess = tf.Session(config=tf.compat.v1.ConfigProto(allow_soft_placement=True))
    """

    def __init__(self, **options: object) -> None:
        self.__dict__.update(options)


def get_default_session() -> None:
    """None: no session differs from another.

    >>> tf.compat.v1.get_default_session() is None
    True
    """


class Session:
    """Compute tensors and calls of a graph, and return their values as NumPy arrays.

    >>> x = tf.constant([2.0])
    >>> slopes = tf.gradients(x**3, x)
    >>> with tf.Session() as sess:
    ...     print(sess.run(slopes))
    [array([12.], dtype=float32)]

    Graphs keep the calls and variables keep their values, so sessions do not differ.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: object = None) -> None:
        self.graph = graph
        self._closed = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Refuse further runs."""
        self._closed = True

    def as_default(self) -> Session:
        """This session."""
        return self

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: object = None,
        run_metadata: object = None,
    ) -> Any:
        """The values of a tensor, a variable or a nest of them; None for calls without a result.

        >>> tf.Session().run({"a": tf.constant(1.0), "b": [tf.constant(2)]})
        {'a': np.float32(1.0), 'b': [np.int32(2)]}
        """
        if self._closed:
            raise RuntimeError("run: this session is closed. Make another.")
        run = Run(_feeds(feed_dict))
        calls = symbolic_parts(fetches)
        if not calls:
            return _fetched(fetches, run)
        needs = _asks_for_gradients(calls)
        with running(run):
            if needs:
                # Calls in the graph need derivatives, so the whole recording has to be kept.
                with tapes.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
                    _make(calls, run)
                    result = _fetched(fetches, run)
                tape.reset()
                return result
            _make(calls, run)
            return _fetched(fetches, run)


class InteractiveSession(Session):
    """A session that is the default one from the start; sessions do not differ here.

    >>> sess = tf.compat.v1.InteractiveSession()
    >>> tf.constant(2.0).eval().item()
    2.0
    """


def _make(calls: list[Symbolic], run: Run) -> None:
    """Execute calls without effects first: fetched values are those from before assignments."""
    for call in [c for c in calls if not c.effect] + [c for c in calls if c.effect]:
        run.value(call)


def _asks_for_gradients(calls: list[Symbolic]) -> bool:
    seen: set[int] = set()
    waiting: list[Symbolic] = list(calls)
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


def _feeds(feed_dict: Mapping[Any, Any] | None) -> dict[int, Any]:
    result = {}
    for key, value in (feed_dict or {}).items():
        if isinstance(key, Placeholder):
            result[id(key)] = key.fed(value)
        elif isinstance(key, Symbolic):
            result[id(key)] = convert(value)
        else:
            raise ArgumentError(
                f"feed_dict: {key!r} is computed already. Feed placeholders, or calls on them."
            )
    return result


def _fetched(fetches: Any, run: Run) -> Any:
    if fetches is None:
        raise TypeError("run: None cannot be fetched. Is it the gradient of an unconnected source?")
    if isinstance(fetches, Symbolic):
        return _value(run.value(fetches))
    if isinstance(fetches, dict):
        return type(fetches)((key, _fetched(part, run)) for key, part in fetches.items())
    if isinstance(fetches, (list, tuple)):
        parts = [_fetched(part, run) for part in fetches]
        return type(fetches)(*parts) if hasattr(fetches, "_fields") else type(fetches)(parts)
    return _value(fetches)


def _value(result: Any) -> Any:
    if result is None:
        return None
    if isinstance(result, (list, tuple)):
        return type(result)(_value(part) for part in result)
    if isinstance(result, Variable) or hasattr(result, "enter"):
        return convert(result).numpy()
    raise TypeError(
        f"run: {type(result).__name__} is not a tensor, a variable or a call of a graph. Fetch one "
        "of these."
    )


Symbolic.default_session = Session


check_exports(globals(), __all__)
